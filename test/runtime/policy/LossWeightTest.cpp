// SPDX-License-Identifier: Apache-2.0
#include "policy/LossWeight.h"

#include "core/SessionError.h"

#include <ATen/ops/tensor.h>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace fcdp;

namespace {

plan::InputT inputOf(plan::DType type) {
  plan::InputT input;
  input.name = "mask";
  input.dtype = type;
  return input;
}

double sumOf(const std::vector<double> &values, plan::DType type,
             at::ScalarType scalar) {
  at::Tensor tensor = at::tensor(values, at::kDouble).to(scalar);
  auto *data = static_cast<const std::byte *>(tensor.const_data_ptr());
  return sumWeights(inputOf(type), {data, tensor.nbytes()}, "micro-batch", 1,
                    /*rank=*/3);
}

TEST(LossWeightTest, SumsAllTypesOfNumbers) {
  const std::vector<double> values = {0, 1, 3, 100};
  for (auto [type, scalar] : {std::pair(plan::DType::f16, at::kHalf),
                              std::pair(plan::DType::bf16, at::kBFloat16),
                              std::pair(plan::DType::f32, at::kFloat),
                              std::pair(plan::DType::f64, at::kDouble),
                              std::pair(plan::DType::i8, at::kChar),
                              std::pair(plan::DType::i16, at::kShort),
                              std::pair(plan::DType::i32, at::kInt),
                              std::pair(plan::DType::i64, at::kLong),
                              std::pair(plan::DType::u8, at::kByte)})
    EXPECT_EQ(sumOf(values, type, scalar), 104) << plan::EnumNameDType(type);
  EXPECT_EQ(sumOf(values, plan::DType::bool_, at::kBool), 3);
  EXPECT_EQ(sumOf({200, 255}, plan::DType::u8, at::kByte), 455);
  EXPECT_EQ(sumOf({0.5, 0.25}, plan::DType::f32, at::kFloat), 0.75);
  EXPECT_EQ(sumOf({}, plan::DType::f32, at::kFloat), 0);
}

void expectRefused(double value, plan::DType type, at::ScalarType scalar,
                   const std::string &shown) {
  try {
    sumOf({1, 1, value}, type, scalar);
    FAIL() << "expected an error for " << shown;
  } catch (const SessionError &error) {
    EXPECT_EQ(error.code(), SessionErrorCode::InputMismatch);
    EXPECT_EQ(std::string(error.what()),
              "input 'mask' of micro-batch 1 on rank 3: expected weights of "
              "the loss, which are finite and at least 0, got " +
                  shown + " at position 2");
  }
}

TEST(LossWeightTest, RefusesWhatIsNoWeight) {
  const double infinity = std::numeric_limits<double>::infinity();
  expectRefused(-100, plan::DType::i64, at::kLong, "-100");
  expectRefused(-0.5, plan::DType::bf16, at::kBFloat16, "-0.5");
  expectRefused(infinity, plan::DType::f32, at::kFloat, "inf");
  expectRefused(-infinity, plan::DType::f16, at::kHalf, "-inf");
  expectRefused(std::nan(""), plan::DType::f64, at::kDouble, "nan");
}

TEST(LossWeightTest, Factors) {
  EXPECT_EQ(lossFactor(3, 12, 4), 1);
  EXPECT_EQ(lossFactor(17, 8 * 17, 8), 1);
  EXPECT_EQ(lossFactor(6, 12, 4), 2);
  EXPECT_EQ(lossFactor(0, 12, 4), 0);
  EXPECT_EQ(lossFactor(0, 0, 4), 0);
}

TEST(LossWeightTest, PaddingIsZero) {
  StepPlan plan;
  EXPECT_NO_THROW(checkWeightPadding(plan, "mask", 1));
  plan.lossWeight = "mask";
  EXPECT_NO_THROW(checkWeightPadding(plan, "mask", 0));
  EXPECT_NO_THROW(checkWeightPadding(plan, "labels", -100));
  try {
    checkWeightPadding(plan, "mask", 1);
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(),
                 "padding of input 'mask': expected 0, as the step weights its "
                 "losses by it, got 1");
  }
}

} // namespace
