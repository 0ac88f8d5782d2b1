// SPDX-License-Identifier: Apache-2.0
#include "policy/WeightedLosses.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

/// The numbers of two ranks, of which this is the first.
GatherOverRanks withOther(std::vector<double> other) {
  return [=](std::span<const double> own, const char *) {
    std::vector<double> all(own.begin(), own.end());
    all.insert(all.end(), other.begin(), other.end());
    return all;
  };
}

class WeightedLossesTest : public ::testing::Test {
protected:
  /// A step of two micro-batches with the inputs `ids` and `mask`.
  WeightedLossesTest() {
    plan.mesh = {1, 2};
    plan.microBatches = 2;
    for (const char *name : {"ids", "mask"}) {
      auto &input = *plan.inputs.emplace_back(std::make_unique<plan::InputT>());
      input.name = name;
      input.dtype = plan::DType::f32;
      input.shape = {2};
    }
    plan.lossWeight = "mask";
  }

  StepPlan plan;
};

TEST_F(WeightedLossesTest, AreWeighedByTheirInput) {
  const WeightedLosses losses(plan, /*rank=*/0);
  const float values[4][2] = {{9, 9}, {1, 0}, {9, 9}, {1, 1}};
  std::vector<TensorView> inputs;
  for (const auto &value : values)
    inputs.push_back(
        {reinterpret_cast<const std::byte *>(value), DType::F32, {2}});
  EXPECT_EQ(losses.sumOwn(inputs), 3);
  const double weight =
      losses.ofBatch(plan.stepInputs(0), "micro-batch", 1, [&](size_t index) {
        EXPECT_EQ(plan.inputs[index]->name, "mask");
        return std::as_bytes(std::span(values[3]));
      });
  EXPECT_EQ(weight, 2);
  // 4 losses have the weights 1, 2 and two more.
  EXPECT_EQ(losses.factorOf(weight, 8), 1);
  EXPECT_FALSE(losses.problemOf(3, "step 3"));
  const auto problem = losses.problemOf(0, "step 3");
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->code(), SessionErrorCode::InputMismatch);
  EXPECT_TRUE(std::string(problem->what()).starts_with("step 3: "));
}

TEST_F(WeightedLossesTest, RanksAgreeOnTheirNeeds) {
  const StepNeeds needs = agreeOnNeeds(plan, {1, 2.5}, withOther({3, 0.5}));
  EXPECT_EQ(needs.variant, 3u);
  EXPECT_EQ(needs.weight, 3);
  plan.lossWeight = "";
  // A step without either asks no rank.
  EXPECT_EQ(agreeOnNeeds(plan, {0, 0}, nullptr).weight, 0);
}

TEST(SumOverRanksTest, SumsEachNumber) {
  const double own[] = {1, 2};
  EXPECT_EQ(sumOverRanks(own, "sum", withOther({10, 20})),
            (std::vector<double>{11, 22}));
}

} // namespace
