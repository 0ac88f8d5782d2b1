// SPDX-License-Identifier: Apache-2.0
#include "policy/NonfiniteCheck.h"

#include <gtest/gtest.h>
#include <limits>

using namespace fcdp;

namespace {

class NonfiniteCheckTest : public ::testing::Test {
protected:
  NonfiniteCheckTest() {
    plan.mesh = {1, 2};
    plan.microBatches = 2;
    stats.step = 3;
    stats.nonfinite = Nonfinite{1, 0, std::numeric_limits<double>::infinity()};
  }

  std::string textOf(OnNonfinite what,
                     const std::optional<LossScale> &scale = {}) {
    auto error = NonfiniteCheck(plan, what).errorOf(stats, scale);
    return error ? error->what() : "";
  }

  StepPlan plan;
  StepStats stats;
};

TEST_F(NonfiniteCheckTest, EndsStepsByTheOption) {
  EXPECT_EQ(textOf(OnNonfinite::Stop),
            "step 3: the loss of micro-batch 1 of 2 on rank 1 (node 0, local "
            "1) is infinite");
  EXPECT_EQ(textOf(OnNonfinite::Continue), "");
  stats.skipped = true;
  EXPECT_EQ(textOf(OnNonfinite::Skip), "");
  stats = {};
  EXPECT_EQ(textOf(OnNonfinite::Stop), "");
}

TEST_F(NonfiniteCheckTest, GradientsThatCannotBeSkipped) {
  stats.nonfinite = Nonfinite{.rank = 1, .microBatch = std::nullopt};
  EXPECT_NE(textOf(OnNonfinite::Skip).find("--clip-norm"), std::string::npos);
}

TEST_F(NonfiniteCheckTest, NoSmallerScaleHelps) {
  LossScale scale{LossScaling()};
  for (int i = 0; i < 100; ++i)
    scale.update(/*isSkipped=*/true);
  stats.skipped = true;
  EXPECT_NE(textOf(OnNonfinite::Skip, scale).find("a smaller one cannot"),
            std::string::npos);
}

TEST_F(NonfiniteCheckTest, KeepsTheFirstOfARank) {
  NonfiniteCheck check(plan, OnNonfinite::Stop);
  RankStats own;
  own.losses = {1, 2};
  check.note(own, 4, /*rank=*/1, {});
  EXPECT_FALSE(check.noted());
  for (int64_t step : {5, 6}) {
    own.losses[1] = std::numeric_limits<double>::quiet_NaN();
    check.note(own, step, /*rank=*/1, {});
    ASSERT_TRUE(check.noted());
    EXPECT_STREQ(check.noted()->what(),
                 "step 5: the loss of micro-batch 2 of 2 on rank 1 (node 0, "
                 "local 1) is NaN");
  }
}

} // namespace
