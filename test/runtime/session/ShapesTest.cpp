// SPDX-License-Identifier: Apache-2.0
#include "inputs/Shapes.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::run;

namespace {

template <typename T>
std::vector<std::byte> bytesOf(const std::vector<T> &values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> valuesOf(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A step whose input `ids` is of 2 rows of 1, 2 or 4, and `x` of 1, 1 or 3.
StepPlan plan() {
  StepPlan plan;
  for (uint32_t variant = 0; variant < 3; ++variant) {
    plan.functions.push_back(std::make_unique<plan::FunctionT>());
    plan.functions.back()->role = plan::Role::only_microbatch;
    plan.functions.back()->variant = variant;
    auto add = [&](const char *name, plan::DType type, Shape shape) {
      plan.inputs.push_back(std::make_unique<plan::InputT>());
      plan.inputs.back()->name = name;
      plan.inputs.back()->dtype = type;
      plan.inputs.back()->shape = std::move(shape);
      plan.inputs.back()->variant = variant;
    };
    add("ids", plan::DType::i64, {2, std::vector<int64_t>{1, 2, 4}[variant]});
    plan.inputs.back()->indexLimit = 10;
    plan.inputs.back()->ignoreIndex = -100;
    add("x", plan::DType::f32, {std::vector<int64_t>{1, 1, 3}[variant]});
  }
  return plan;
}

using Ids = std::vector<int64_t>;
using X = std::vector<float>;

uint32_t find(const Shapes &shapes, const Ids &ids, const X &x) {
  return shapes.find({bytesOf(ids), bytesOf(x)});
}

TEST(ShapesTest, FindsTheLeastThatRowsFitInto) {
  StepPlan step = plan();
  Shapes shapes(step, {});
  EXPECT_TRUE(shapes.areSeveral());
  EXPECT_EQ(find(shapes, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0}), 0u);
  EXPECT_EQ(find(shapes, {7, 0, 0, 0, 7, 0, 0, 0}, {1, 0, 0}), 0u);
  EXPECT_EQ(find(shapes, {0, 0, 0, 0, 0, 7, 0, 0}, {1, 0, 0}), 1u);
  EXPECT_EQ(find(shapes, {7, 7, 7, 0, 7, 0, 0, 0}, {1, 0, 0}), 2u);
  EXPECT_EQ(find(shapes, {0, 0, 0, 7, 0, 0, 0, 0}, {0, 0, 0}), 2u);
  EXPECT_EQ(find(shapes, {7, 0, 0, 0, 7, 0, 0, 0}, {0, 1, 0}), 2u);
  // The second of two micro-batches needs more.
  Ids small(8), great{1, 2, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(shapes.find(
                {bytesOf(small), bytesOf(X(3)), bytesOf(great), bytesOf(X(3))}),
            1u);
}

TEST(ShapesTest, PaddingIsTheInputs) {
  StepPlan step = plan();
  Shapes shapes(step, {{"ids", -100}, {"x", 0.5}});
  Ids ids{3, -100, -100, -100, 0, -100, -100, -100};
  EXPECT_EQ(find(shapes, ids, {1, 0.5, 0.5}), 0u);
  EXPECT_EQ(find(shapes, ids, {1, 0, 0.5}), 2u);
  ids[2] = 0;
  EXPECT_EQ(find(shapes, ids, {1, 0.5, 0.5}), 2u);
}

TEST(ShapesTest, CutsRows) {
  StepPlan step = plan();
  Shapes shapes(step, {});
  std::vector<std::byte> row = bytesOf(Ids{1, 2, 3, 4, 5, 6, 7, 8});
  auto cut = [&](uint32_t variant, size_t elements) {
    std::vector<std::byte> out(elements * sizeof(int64_t));
    shapes.cut(0, {.variant = variant}, row, out);
    return valuesOf<int64_t>(out);
  };
  EXPECT_EQ(cut(0, 2), (Ids{1, 5}));
  EXPECT_EQ(cut(1, 4), (Ids{1, 2, 5, 6}));
  EXPECT_EQ(cut(2, 8), (Ids{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(ShapesTest, RefusesPadding) {
  StepPlan step = plan();
  auto refusal = [&](const char *name, double value) -> std::string {
    try {
      Shapes(step, {{name, value}});
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("y", 0),
            "padding of input 'y': the step has no input of that name");
  EXPECT_EQ(refusal("ids", 9), "");
  EXPECT_NE(refusal("ids", 10).find("expected [0, 10) or -100"),
            std::string::npos);
  EXPECT_NE(refusal("ids", 0.5).find("expected a whole number"),
            std::string::npos);
  for (size_t i = 2; i-- > 0;)
    step.functions.pop_back();
  EXPECT_EQ(refusal("ids", 0), "padding of input 'ids': expected a step of "
                               "several shapes, got one of one "
                               "shape");
}

TEST(PaddingTest, PadsWhatIsSmaller) {
  auto pad = [](const Shape &from, const Shape &to) {
    int64_t elements = numElements(from);
    X values;
    for (int64_t i = 0; i < elements; ++i)
      values.push_back(float(i + 1));
    std::vector<std::byte> out(numElements(to) * sizeof(float));
    std::vector<std::byte> in = bytesOf(values);
    copyPadded(in, from, out, to, bytesOf(X{-1}));
    return valuesOf<float>(out);
  };
  EXPECT_EQ(pad({2}, {3}), (X{1, 2, -1}));
  EXPECT_EQ(pad({2, 2}, {2, 3}), (X{1, 2, -1, 3, 4, -1}));
  EXPECT_EQ(pad({1, 2}, {2, 2}), (X{1, 2, -1, -1}));
  EXPECT_EQ(pad({2, 1, 2}, {2, 2, 2}), (X{1, 2, -1, -1, 3, 4, -1, -1}));
  // One dimension grows, one is cut.
  EXPECT_EQ(pad({2, 3}, {3, 2}), (X{1, 2, 4, 5, -1, -1}));
  EXPECT_EQ(pad({0}, {2}), (X{-1, -1}));
  EXPECT_EQ(pad({2}, {0}), X{});
  EXPECT_EQ(pad({}, {}), X{1});
}

TEST(PaddingTest, HasTheTypeOfTheInput) {
  plan::InputT input;
  auto make = [&](plan::DType type, double value) {
    input.dtype = type;
    return makePadding(input, value);
  };
  EXPECT_EQ(valuesOf<int64_t>(make(plan::DType::i64, -100)), Ids{-100});
  EXPECT_EQ(valuesOf<int32_t>(make(plan::DType::i32, -100)),
            std::vector<int32_t>{-100});
  EXPECT_EQ(valuesOf<double>(make(plan::DType::f64, 0.5)),
            std::vector<double>{0.5});
  EXPECT_EQ(valuesOf<uint16_t>(make(plan::DType::bf16, 1)),
            std::vector<uint16_t>{0x3f80});
  EXPECT_EQ(make(plan::DType::bool_, 1).size(), 1u);
  EXPECT_EQ(valuesOf<float>(make(plan::DType::c64, 2)), (X{2, 0}));
  EXPECT_THROW(make(plan::DType::bool_, 2), std::runtime_error);
  EXPECT_THROW(make(plan::DType::u8, -1), std::runtime_error);
  EXPECT_THROW(make(plan::DType::i8, 300), std::runtime_error);
  EXPECT_THROW(make(plan::DType::i64, 1e300), std::runtime_error);
}

} // namespace
