// SPDX-License-Identifier: Apache-2.0
//
// How a shard is cut, and that a cut changes no bit of an update.
#include "optimizers/UpdateSegments.h"

#include <ATen/Context.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <array>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

/// A bucket of 128 elements: `a` at 0 (30 elements, group 0), `b` at 32 (16, no
/// group), `c` at 48 (1, group 1), `d` at 64 (20, group 1), and padding.
StepPlan planOf(Mesh mesh, plan::Sharding sharding, uint64_t shardElements) {
  StepPlan plan;
  plan.mesh = mesh;
  plan::SgdT sgd;
  sgd.weightDecay = 0.5;
  plan.optimizer.Set(std::move(sgd));
  for (double factor : {2.0, 3.0}) {
    plan.groups.push_back(std::make_unique<plan::GroupT>());
    plan.groups.back()->lrFactor = factor;
    plan.groups.back()->weightDecay = 0.25;
  }
  auto add = [&](uint64_t offset, int64_t elements,
                 flatbuffers::Optional<uint32_t> group) {
    plan.parameters.push_back(std::make_unique<plan::ParameterT>());
    plan::ParameterT &parameter = *plan.parameters.back();
    parameter.shape = {elements};
    parameter.offsetElements = offset;
    parameter.group = group;
  };
  // Not in the order of offsets.
  add(64, 20, 1);
  add(0, 30, 0);
  add(32, 16, flatbuffers::nullopt);
  add(48, 1, 1);
  add(48, 0, 0); // empty
  plan.buckets.push_back(std::make_unique<plan::BucketT>());
  plan.buckets[0]->elements = 128;
  plan.buckets[0]->sharding = sharding;
  plan.buckets[0]->shardElements = shardElements;
  return plan;
}

using Cuts = std::vector<std::tuple<int64_t, int64_t, double, double>>;

Cuts cutsOf(const StepPlan &plan, Place place) {
  Cuts cuts;
  for (const UpdateSegment &segment : updateSegments(plan, 0, place, 0.5))
    cuts.emplace_back(segment.begin, segment.elements, segment.lrFactor,
                      segment.weightDecay);
  return cuts;
}

TEST(UpdateSegments, OfAWholeBucketAreThoseOfNeighboursWithOtherSettings) {
  StepPlan plan = planOf({1, 2}, plan::Sharding::none, 128);
  Cuts expected = {{0, 32, 2, 0.25}, {32, 16, 1, 0.5}, {48, 80, 3, 0.25}};
  EXPECT_EQ(cutsOf(plan, {0, 0}), expected);
  EXPECT_EQ(cutsOf(plan, {0, 1}), expected);
}

TEST(UpdateSegments, NeighboursMayDifferInOneSettingAlone) {
  StepPlan plan = planOf({1, 1}, plan::Sharding::none, 128);
  plan.groups[1]->lrFactor = 1; // as without a group
  EXPECT_EQ(cutsOf(plan, {0, 0}),
            (Cuts{{0, 32, 2, 0.25}, {32, 16, 1, 0.5}, {48, 80, 1, 0.25}}));
  plan.groups[1]->lrFactor = 3;
  plan.groups[1]->weightDecay = 0.5;
  EXPECT_EQ(cutsOf(plan, {0, 0}),
            (Cuts{{0, 32, 2, 0.25}, {32, 16, 1, 0.5}, {48, 80, 3, 0.5}}));
}

TEST(UpdateSegments, OfAShardAreItsOwnPart) {
  StepPlan plan = planOf({1, 4}, plan::Sharding::world, 32);
  EXPECT_EQ(cutsOf(plan, {0, 0}), (Cuts{{0, 32, 2, 0.25}}));
  EXPECT_EQ(cutsOf(plan, {0, 1}), (Cuts{{0, 16, 1, 0.5}, {16, 16, 3, 0.25}}));
  EXPECT_EQ(cutsOf(plan, {0, 2}), (Cuts{{0, 32, 3, 0.25}}));
  // Padding alone.
  EXPECT_EQ(cutsOf(plan, {0, 3}), (Cuts{{0, 32, 3, 0.25}}));
}

TEST(UpdateSegments, OfMatricesAreTheMatrices) {
  StepPlan plan = planOf({1, 2}, plan::Sharding::world, 64);
  plan.parameters[0]->shape = {4, 5};
  plan.parameters[1]->shape = {15, 2};
  plan.parameters[2]->shape = {2, 8};
  plan.parameters[3]->shape = {1, 1};
  plan.parameters[4]->shape = {0, 3};
  using Matrices = std::vector<std::array<double, 6>>;
  auto matricesOf = [&](Place place) {
    Matrices matrices;
    for (const UpdateSegment &segment : wholeSegments(plan, 0, place, 0.5))
      matrices.push_back({double(segment.begin), double(segment.elements),
                          double(segment.rows), double(segment.columns),
                          segment.lrFactor, segment.weightDecay});
    return matrices;
  };
  Matrices first = {
      {0, 30, 15, 2, 2, 0.25}, {32, 16, 2, 8, 1, 0.5}, {48, 1, 1, 1, 3, 0.25}};
  EXPECT_EQ(matricesOf({0, 0}), first);
  EXPECT_EQ(matricesOf({0, 1}), (Matrices{{0, 20, 4, 5, 3, 0.25}}));
}

TEST(UpdateSegments, WithoutGroupsAreTheShard) {
  StepPlan plan = planOf({2, 1}, plan::Sharding::world, 64);
  for (auto &parameter : plan.parameters)
    parameter->group = flatbuffers::nullopt;
  EXPECT_EQ(cutsOf(plan, {1, 0}), (Cuts{{0, 64, 1, 0.5}}));
}

at::Tensor random(int64_t elements, at::ScalarType type) {
  return at::randn({elements}).mul(at::randn({elements}).exp()).to(type);
}

/// Updates a shard in parts that begin at multiples of `unit` bytes.
std::vector<at::Tensor> update(bool isAdamW, at::ScalarType type,
                               int64_t unit) {
  at::manual_seed(3);
  constexpr int64_t elements = 4096;
  std::vector<at::Tensor> states;
  for (int i = 0; i < 3; ++i)
    states.push_back(random(elements, type).abs());
  at::Tensor count = at::zeros({}, at::kFloat);
  int64_t step = unit / int64_t(c10::elementSize(type));
  for (int i = 0; i < 3; ++i) {
    at::Tensor grad = random(elements, type);
    count.add_(1);
    // Parts of 1, 2, 3, ... units.
    for (int64_t begin = 0, size = step; begin < elements; size += step) {
      size = std::min(size, elements - begin);
      auto cut = [&](const at::Tensor &whole) {
        return whole.narrow(0, begin, size);
      };
      if (isAdamW)
        at::_fused_adamw_({cut(states[0])}, {cut(grad)}, {cut(states[1])},
                          {cut(states[2])}, {}, {count}, 1e-2, 0.9, 0.999, 0.1,
                          1e-8, false, false);
      else
        at::_fused_sgd_({cut(states[0])}, {cut(grad)}, {cut(states[1])}, 0.1,
                        0.9, 1e-2, 0, true, false, i == 0);
      begin += size;
    }
  }
  return states;
}

TEST(UpdateSegments, CutsAtMultiplesOf64BytesChangeNoBit) {
  for (bool isAdamW : {true, false})
    for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      if (!isAdamW && type != at::kFloat)
        continue;
      auto whole = update(isAdamW, type, 4096 * 4);
      auto cut = update(isAdamW, type, 64);
      for (size_t i = 0; i < whole.size(); ++i)
        EXPECT_TRUE(at::equal(whole[i], cut[i])) << type << " " << i;
    }
}

} // namespace
