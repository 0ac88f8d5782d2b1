// SPDX-License-Identifier: Apache-2.0
//
// The library: what it computes.
#include "SessionFixture.h"

#include <cmath>
#include <limits>

using namespace fcdp;
using namespace fcdp::test;

TEST_F(SessionTest, TrainsOnTensors) {
  auto session = openWithValue();
  std::vector<float> read(kElements);
  auto bytes = std::as_writable_bytes(std::span(read));
  session->getState("w", plan::StateRole::shard, bytes);
  EXPECT_EQ(read, w);
  for (int i = 0; i < 3; ++i) {
    session->run(inputs());
    RankStats stats = session->read();
    ASSERT_EQ(stats.losses.size(), 1u);
    double loss = nextLoss();
    EXPECT_NEAR(stats.losses[0], loss, 1e-5 * loss);
    EXPECT_EQ(stats.linkBytes[LinkId::D2H], 32);
    EXPECT_EQ(session->combine(stats).loss, stats.losses[0]);
  }
  session->getState("w", plan::StateRole::shard, bytes);
  for (size_t i = 0; i < kElements; ++i)
    EXPECT_NEAR(read[i], w[i], 1e-5);
  session->close();
}

TEST_F(SessionTest, TrainsAtItsLearningRate) {
  auto session = openWithValue();
  EXPECT_EQ(session->learningRate(), 0.5);
  session->setSchedule(Schedule::parse("linear,steps=4", "text"));
  for (float rate : {0.5F, 0.375F, 0.5F, 0.25F, 0.0F, 0.0F}) {
    if (session->numSteps() == 2)
      session->setLearningRate(1);
    EXPECT_EQ(session->learningRate(), rate);
    session->run(inputs());
    RankStats stats = session->read();
    EXPECT_EQ(stats.learningRate, rate);
    EXPECT_EQ(session->combine(stats).learningRate, rate);
    double loss = nextLoss(rate);
    EXPECT_NEAR(stats.losses[0], loss, 1e-5 * loss);
  }
  session->close();
}

TEST_F(SessionTest, ProfilesItsFirstSteps) {
  SessionOptions options = only();
  options.profiledSteps = 2;
  std::vector<std::string> profiles;
  options.onProfile = [&](const std::string &json) {
    profiles.push_back(json);
  };
  auto session = openWithValue(options);
  for (size_t i = 0; i < 5; ++i) {
    session->run(inputs());
    EXPECT_EQ(profiles.size(), i < 2 ? 0u : 1u);
    double loss = nextLoss();
    EXPECT_NEAR(session->read().losses[0], loss, 1e-5 * loss);
  }
  session->close();
  EXPECT_NE(profiles[0].find("\"steps\": 2"), std::string::npos) << profiles[0];
  EXPECT_NE(profiles[0].find("\"operator\""), std::string::npos) << profiles[0];
}

TEST_F(SessionTest, RefusesRatesThatAreNone) {
  auto session = openWithValue();
  for (double rate : {-0.5, double(NAN), double(INFINITY)})
    expectError(SessionErrorCode::Misuse,
                [&] { session->setLearningRate(rate); });
  EXPECT_EQ(session->learningRate(), 0.5);
}

TEST_F(SessionTest, RanksHaveOneLearningRate) {
  std::vector<RankStats> ranks(2);
  for (RankStats &rank : ranks)
    rank.losses = {1};
  ranks[0].learningRate = ranks[1].learningRate = 0.5;
  EXPECT_EQ(combine({1, 2}, ranks).learningRate, 0.5);
  ranks[1].learningRate = 0.25;
  try {
    combine({1, 2}, ranks);
    ADD_FAILURE() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "expected one learning rate on all ranks, got "
                               "0.5 on rank 0 and 0.25 on rank 1");
  }
}

TEST_F(SessionTest, AStepIsSkippedOrNot) {
  for (auto mode : {OnNonfinite::Skip, OnNonfinite::Continue}) {
    SessionOptions options = only();
    options.onNonfinite = mode;
    auto session = Session::open(step(), options);
    session->setState("w", plan::StateRole::shard, view(w, DType::F32));
    x[1] = std::numeric_limits<float>::quiet_NaN();
    session->run(inputs());
    StepStats stats = session->combine(session->read());
    EXPECT_EQ(stats.step, 1);
    EXPECT_EQ(stats.skipped, mode == OnNonfinite::Skip);
    ASSERT_TRUE(stats.nonfinite);
    EXPECT_EQ(stats.nonfinite->microBatch, 0u);
    session->requireFinite(stats);
    EXPECT_EQ(session->getUpdateCount("w"), mode == OnNonfinite::Skip ? 0 : 1);
    std::vector<float> read(kElements);
    session->getState("w", plan::StateRole::shard,
                      std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read == w, mode == OnNonfinite::Skip);
    session->close();
  }
}

TEST_F(SessionTest, MicroBatchesHaveALossEach) {
  auto session = Session::open(step(1, 3), only());
  session->setState("w", plan::StateRole::shard, view(w, DType::F32));
  session->run(inputs(3));
  std::vector<double> losses = session->read().losses;
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  session->close();
}
