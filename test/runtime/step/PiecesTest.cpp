// SPDX-License-Identifier: Apache-2.0
//
// Updates in pieces have the bits of updates as a whole, also in the elements
// after the first piece.
#include "core/Pieces.h"
#include "plan/FakeStep.h"
#include "step/LocalBackend.h"
#include "step/Step.h"
#include "step/StepObject.h"

#include <gtest/gtest.h>
#include <random>

using namespace fcdp;
using namespace fcdp::test;

namespace {

constexpr int64_t kNumUpdated = 1024;
/// A multiple of the blocks that share a scale, and of all vectors' lengths.
constexpr int64_t kUpdatedAtOnce = 256;
/// Room for a state.
constexpr uint64_t kStateRoom = 4 * kNumUpdated;

struct UpdateState {
  const char *role, *dtype;
  uint64_t bytes;
};

struct UpdateCase {
  const char *name;
  /// The optimizer's settings, as in a plan.
  const char *optimizer;
  const char *storage;
  std::vector<UpdateState> states;
};

FakeStep stepOf(const UpdateCase &which) {
  FakeStep fake;
  Json &plan = fake.plan;
  plan["optimizer"] = Json::parse(which.optimizer);
  plan["buffers"].push_back({{"name", "one"},
                             {"shape", Json::array()},
                             {"dtype", "f32"},
                             {"persistent", false},
                             {"mutable", false},
                             {"constant_offset", 0}});
  fake.constants = {0, 0, 0x80, 0x3f}; // 1.0f
  size_t slot = fake.slot({{"kind", "buffer"}, {"index", 0}});
  fake.add("only_microbatch",
           {{"kind", "loss"}, {"slot", slot}, {"free", Json::array()}});
  uint64_t width = std::string(which.storage) == "f32" ? 4 : 2;
  Json states = {state("shard", which.storage, device(0, width * kNumUpdated)),
                 state("grad", "f32", device(kStateRoom, 4 * kNumUpdated))};
  for (const UpdateState &one : which.states)
    states.push_back(state(one.role, one.dtype,
                           device(kStateRoom * states.size(), one.bytes)));
  plan["buckets"].push_back({{"name", "b"},
                             {"unit", "u"},
                             {"trainable", true},
                             {"elements", kNumUpdated},
                             {"shard_elements", kNumUpdated},
                             {"storage", which.storage},
                             {"wire", which.storage},
                             {"reduce", "f32"},
                             {"states", states},
                             {"sharding", "world"}});
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 0.5}});
  return fake;
}

class PiecesTest : public ::testing::TestWithParam<UpdateCase> {
protected:
  /// Returns the states after three steps on random gradients.
  std::vector<std::byte> run() {
    StepObject object(stepOf(GetParam()).build(folder));
    const StepPlan &plan = object.plan();
    LocalBackend backend(plan.deviceBytes, plan.hostBytes);
    Step step(object, backend, StepSetup{});
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    auto *shard = backend.at<uint16_t>(0);
    // The upper halves of values of f32 are values of bf16.
    for (int64_t i = 0; i < 2 * kNumUpdated; ++i)
      shard[i] = i % 2 ? uint16_t(0x3f80 + random() % 64) : uint16_t(0x3f81);
    for (int i = 0; i < 3; ++i) {
      for (int64_t at = 0; at < kNumUpdated; ++at)
        backend.at<float>(kStateRoom)[at] = normal(random);
      step.run([](int64_t) {});
      step.losses();
    }
    return {backend.device.begin(),
            backend.device.begin() + 6 * int64_t(kStateRoom)};
  }

  TemporaryFolder folder;
};

TEST_P(PiecesTest, HaveTheBitsOfTheWhole) {
  std::vector<std::byte> whole = run(), pieces;
  {
    SmallPieces small(kUpdatedAtOnce);
    pieces = run();
  }
  ASSERT_EQ(whole.size(), pieces.size());
  for (size_t i = 0; i < whole.size(); ++i)
    ASSERT_EQ(whole[i], pieces[i]) << "byte " << i;
}

constexpr const char *kLion =
    R"({"kind": "lion", "lr": 0.1, "beta1": 0.9, "beta2": 0.99,
        "weight_decay": 0.5})";
constexpr const char *kAdamW8bit =
    R"({"kind": "adamw8bit", "lr": 0.1, "beta1": 0.9, "beta2": 0.999,
        "eps": 1e-8, "weight_decay": 0.01})";
constexpr const char *kSgdMomentum =
    R"({"kind": "sgd", "lr": 0.5, "momentum": 0.9})";

const std::vector<UpdateState> kEightBits = {
    {"exp_avg_code", "u8", kNumUpdated},
    {"exp_avg_scale", "f32", kNumUpdated / 64},
    {"exp_avg_sq_code", "u8", kNumUpdated},
    {"exp_avg_sq_scale", "f32", kNumUpdated / 64}};

INSTANTIATE_TEST_SUITE_P(
    Updates, PiecesTest,
    ::testing::Values(
        UpdateCase{"Lion", kLion, "f32", {{"exp_avg", "f32", 4 * kNumUpdated}}},
        UpdateCase{"LionOnBf16",
                   kLion,
                   "bf16",
                   {{"exp_avg", "bf16", 2 * kNumUpdated}}},
        UpdateCase{"AdamW8bit", kAdamW8bit, "f32", kEightBits},
        UpdateCase{"AdamW8bitOnBf16", kAdamW8bit, "bf16", kEightBits},
        UpdateCase{"MomentumOnBf16",
                   kSgdMomentum,
                   "bf16",
                   {{"momentum_buffer", "bf16", 2 * kNumUpdated}}}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
