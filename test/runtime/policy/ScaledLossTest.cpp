// SPDX-License-Identifier: Apache-2.0
#include "policy/ScaledLoss.h"

#include "core/SessionError.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

LossScaling parsed(const std::string &text) {
  return LossScaling::parse(text, "--loss-scale");
}

std::string problemOf(const std::function<void()> &work) {
  try {
    work();
    return "";
  } catch (const SessionError &error) {
    EXPECT_EQ(error.code(), SessionErrorCode::Misuse);
    return error.what();
  }
}

TEST(ScaledLossTest, AStepThatDoesNotScale) {
  ScaledLoss loss(false, std::nullopt, OnNonfinite::Stop);
  loss.start();
  loss.update(/*isSkipped=*/true);
  EXPECT_FALSE(loss.scale());
  EXPECT_EQ(loss.addTo({{"loss_scale", 2}}), nlohmann::json::object());
  for (const std::string &problem :
       {problemOf([&] { loss.set(parsed("8"), 0); }), problemOf([] {
          ScaledLoss(false, parsed("8"), OnNonfinite::Stop).start();
        })})
    EXPECT_NE(problem.find("--loss-scale=on"), std::string::npos) << problem;
}

TEST(ScaledLossTest, OnlyAFixedScaleContinues) {
  ScaledLoss loss(true, parsed("8"), OnNonfinite::Continue);
  loss.start();
  EXPECT_NE(problemOf([&] { loss.set(LossScaling(), 0); }).find("fixed"),
            std::string::npos);
  EXPECT_NE(problemOf([&] { loss.set(parsed("4"), -1); }).find("got -1"),
            std::string::npos);
  EXPECT_EQ(loss.scale()->value(), 8);
  loss.set(parsed("4"), 0);
  EXPECT_EQ(loss.scale()->value(), 4);
  ScaledLoss moving(true, std::nullopt, OnNonfinite::Continue);
  EXPECT_NE(problemOf([&] { moving.start(); }), "");
}

TEST(ScaledLossTest, ContinuesFromACheckpoint) {
  ScaledLoss saved(true, parsed("init=1024,interval=9"), OnNonfinite::Skip);
  saved.start();
  saved.update(/*isSkipped=*/true);
  saved.update(/*isSkipped=*/false);
  const nlohmann::json job = saved.addTo({{"rows", 8}});
  EXPECT_EQ(ScaledLoss::removeFrom(job), nlohmann::json({{"rows", 8}}));
  ScaledLoss loaded(true, std::nullopt, OnNonfinite::Skip);
  loaded.start();
  loaded.takeFrom(job, "job");
  EXPECT_EQ(loaded.scale()->value(), 512);
  EXPECT_EQ(loaded.scale()->growthTracker(), 1);
  EXPECT_EQ(loaded.scale()->scaling().growthInterval(), 9);
  // A scale of the options stays.
  ScaledLoss fixed(true, parsed("8"), OnNonfinite::Skip);
  fixed.start();
  fixed.takeFrom(job, "job");
  EXPECT_EQ(fixed.scale()->value(), 8);
  EXPECT_THROW(loaded.takeFrom({{"loss_scale", -1}}, "job"),
               std::runtime_error);
}

} // namespace
