// SPDX-License-Identifier: Apache-2.0
#include "policy/LostUpdates.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

class LostUpdatesTest : public ::testing::Test {
protected:
  LostUpdatesTest() {
    plan.mesh = {1, 2};
    plan::AdamWT adamw;
    adamw.lr = 1e-4;
    plan.optimizer.Set(std::move(adamw));
    auto &bucket =
        *plan.buckets.emplace_back(std::make_unique<plan::BucketT>());
    bucket.elements = 8;
    bucket.shardElements = 4;
    bucket.storage = plan::DType::bf16;
    addParameter(0, 3);
    addParameter(3, 4);
    auto &op = *plan.ops.emplace_back(std::make_unique<plan::OpT>());
    op.body.type = plan::OpBody::shard_update;
    op.body.value = new plan::ShardUpdateT;
  }

  plan::ParameterT &addParameter(uint64_t offset, int64_t elements) {
    auto &parameter =
        *plan.parameters.emplace_back(std::make_unique<plan::ParameterT>());
    parameter.offsetElements = offset;
    parameter.shape = {elements};
    parameter.trainable = true;
    return parameter;
  }

  UpdateCount count(Place place, double rate = 1e-4) {
    // 1, 1, 2^-10, 1 on the first rank, of which the last one is the second
    // parameter's; 1, 1, 1 and padding on the other.
    static const uint16_t bits[] = {0x3f80, 0x3f80, 0x3a80, 0x3f80,
                                    0x3f80, 0x3f80, 0x3f80, 0x3f80};
    return countLostUpdates(plan, place, rate, [&](size_t) {
      return std::as_bytes(std::span(bits)).subspan(8 * place.local, 8);
    });
  }

  StepPlan plan;
};

TEST_F(LostUpdatesTest, OnesInBf16) {
  EXPECT_TRUE(mayLoseUpdates(plan));
  UpdateCount own = count({0, 0});
  EXPECT_EQ(own.elements, 4);
  EXPECT_EQ(own.lost, 3);
  own = count({0, 1});
  EXPECT_EQ(own.elements, 3);
  EXPECT_EQ(own.lost, 3);
  // Half of the spacing below 1 is 2^-9.
  EXPECT_EQ(count({0, 0}, 1e-2).lost, 0);
}

TEST_F(LostUpdatesTest, AGroupHasItsRateAndDecay) {
  auto &group = *plan.groups.emplace_back(std::make_unique<plan::GroupT>());
  group.lrFactor = 100;
  plan.parameters[1]->group = 0;
  EXPECT_EQ(count({0, 0}).lost, 2);
  EXPECT_EQ(count({0, 1}).lost, 0);
}

TEST_F(LostUpdatesTest, MastersAndFloat32LoseNothing) {
  plan.buckets[0]->storage = plan::DType::f32;
  EXPECT_FALSE(mayLoseUpdates(plan));
  plan.buckets[0]->storage = plan::DType::bf16;
  plan.buckets[0]->states.emplace_back(plan::StateRole::master,
                                       plan::DType::f32, plan::Buf());
  EXPECT_FALSE(mayLoseUpdates(plan));
  EXPECT_EQ(count({0, 0}).elements, 4);
  EXPECT_EQ(count({0, 0}).lost, 0);
}

TEST_F(LostUpdatesTest, AreOneLine) {
  EXPECT_EQ(describeLostUpdates({7, 0}, 1e-4), "");
  std::string line = describeLostUpdates({8, 6}, 1e-4);
  EXPECT_NE(line.find("learning rate 0.0001 does not change 75% of the trained "
                      "elements (6 of 8)"),
            std::string::npos);
  EXPECT_NE(line.find("--master=f32"), std::string::npos);
}

} // namespace
