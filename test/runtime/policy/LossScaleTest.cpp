// SPDX-License-Identifier: Apache-2.0
//
// The loss scale from step to step, and what is wrong in a text.
// test/e2e/test_loss_scale.py compares it with torch.amp.GradScaler's.
#include "policy/LossScale.h"

#include <gtest/gtest.h>
#include <stdexcept>

using namespace fcdp;

namespace {

LossScaling scalingOf(const std::string &text) {
  return LossScaling::parse(text, "--loss-scale");
}

TEST(LossScale, BeginsAsGradScaler) {
  LossScale scale{LossScaling()};
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_EQ(scale.growthTracker(), 0);
  EXPECT_FALSE(scale.scaling().isFixed());
  EXPECT_EQ(scale.scaling().text(), "");
  for (int step = 0; step < 1999; ++step)
    scale.update(/*isSkipped=*/false);
  EXPECT_EQ(scale.value(), 65536);
  scale.update(/*isSkipped=*/false);
  EXPECT_EQ(scale.value(), 131072);
  EXPECT_EQ(scale.growthTracker(), 0);
}

TEST(LossScale, BacksOffAndCountsAnew) {
  LossScale scale(scalingOf("init=1000,growth=3,backoff=0.25,interval=2"));
  EXPECT_EQ(scale.value(), 1000);
  scale.update(/*isSkipped=*/false);
  EXPECT_EQ(scale.growthTracker(), 1);
  scale.update(/*isSkipped=*/true);
  EXPECT_EQ(scale.value(), 250);
  EXPECT_EQ(scale.growthTracker(), 0);
  scale.update(/*isSkipped=*/false);
  scale.update(/*isSkipped=*/false);
  EXPECT_EQ(scale.value(), 750);
}

TEST(LossScale, IsExhaustedWhereTheScaleWouldBeZeroInF16) {
  LossScale scale(scalingOf("init=6e-8"));
  EXPECT_FALSE(scale.isExhausted());
  scale.update(/*isSkipped=*/true);
  EXPECT_TRUE(scale.isExhausted());
  EXPECT_EQ(scale.value(), 6e-8f);
}

TEST(LossScale, StaysFinite) {
  LossScale scale(scalingOf("init=3e38,interval=1"));
  scale.update(/*isSkipped=*/false);
  EXPECT_EQ(scale.value(), 3e38f);
  EXPECT_EQ(scale.growthTracker(), 0);
}

TEST(LossScale, AFixedOneStays) {
  LossScale scale(scalingOf("1024"));
  EXPECT_TRUE(scale.scaling().isFixed());
  for (bool isSkipped : {true, false, true})
    scale.update(isSkipped);
  EXPECT_EQ(scale.value(), 1024);
  EXPECT_FALSE(scale.isExhausted());
}

TEST(LossScale, GoesOnFromAnotherOne) {
  LossScale scale(scalingOf("interval=3"));
  scale.restore(512, 2);
  EXPECT_EQ(scale.value(), 512);
  scale.update(/*isSkipped=*/false);
  EXPECT_EQ(scale.value(), 1024);
}

TEST(LossScale, WrongTexts) {
  constexpr const char *settings =
      "expected one number, or some of init=S, growth=F, backoff=F and "
      "interval=N, got '";
  for (const auto &[text, message] :
       {std::pair<std::string, std::string>("", settings + std::string("'")),
        {"dynamic", settings + std::string("dynamic'")},
        {"init=2,", settings + std::string("'")},
        {"init=2,start=3", settings + std::string("start=3'")},
        {"init", settings + std::string("init'")},
        {"0", "expected a scale from 2^-24 to 3.4e38, got '0'"},
        {"-1", "expected a scale from 2^-24 to 3.4e38, got '-1'"},
        {"1e39", "expected a scale from 2^-24 to 3.4e38, got '1e39'"},
        {"nan", settings + std::string("nan'")},
        {"init=5e-8", "expected a scale from 2^-24 to 3.4e38, got '5e-8'"},
        {"init=x", "expected a number for 'init', got 'x'"},
        {"growth=1", "expected a number greater than 1 for 'growth', got '1'"},
        {"backoff=1",
         "expected a number between 0 and 1 for 'backoff', got '1'"},
        {"backoff=0",
         "expected a number between 0 and 1 for 'backoff', got '0'"},
        {"interval=0",
         "expected a number of steps of at least 1 for 'interval', got '0'"},
        {"interval=2.5",
         "expected a number of steps of at least 1 for 'interval', got '2.5'"},
        {"init=1,init=2", "expected 'init' once"}}) {
    try {
      scalingOf(text);
      ADD_FAILURE() << text;
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(error.what(), "--loss-scale: " + message) << text;
    }
  }
}

} // namespace
