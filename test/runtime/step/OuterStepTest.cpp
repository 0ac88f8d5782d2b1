// SPDX-License-Identifier: Apache-2.0
//
// The operators of outer steps beside plain loops, on one rank of two nodes.
// The sum over nodes is what the test writes.
#include "core/Pieces.h"
#include "plan/FakeStep.h"
#include "step/LocalBackend.h"
#include "step/Step.h"
#include "step/StepObject.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// The operators work on pieces: two of them, and a rest.
constexpr int64_t kPiece = 256;
constexpr int64_t kElements = 2 * kPiece + 96;
/// Room for as many elements in f32, at a multiple of 64 bytes.
constexpr uint64_t kRegion = 4096;
constexpr double kRate = 0.7;

// Places in the arenas.
constexpr uint64_t kShard = 0, kMaster = kRegion, kDifference = 2 * kRegion,
                   kSum = 3 * kRegion, kDeviceEnd = 4 * kRegion;
constexpr uint64_t kOuter = 0, kMomentum = kRegion, kHostEnd = 2 * kRegion;

using Floats = std::vector<float>;

/// The nearest value in bf16, or the even one of two.
uint16_t toBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

Floats read(const std::byte *bytes, bool isNarrow) {
  Floats values(kElements);
  for (int64_t i = 0; i < kElements; ++i)
    values[i] = isNarrow
                    ? fromBf16(reinterpret_cast<const uint16_t *>(bytes)[i])
                    : reinterpret_cast<const float *>(bytes)[i];
  return values;
}

void write(std::byte *bytes, bool isNarrow, const Floats &values) {
  for (int64_t i = 0; i < kElements; ++i)
    if (isNarrow)
      reinterpret_cast<uint16_t *>(bytes)[i] = toBf16(values[i]);
    else
      reinterpret_cast<float *>(bytes)[i] = values[i];
}

Floats rounded(Floats values, bool isNarrow) {
  for (float &value : values)
    value = isNarrow ? fromBf16(toBf16(value)) : value;
  return values;
}

struct Case {
  const char *name;
  /// Whether parameters are in bf16, and whether f32 is kept of them.
  bool isStorageNarrow, hasMaster;
  /// Whether differences are sent in bf16.
  bool isSentNarrow;
  double momentum;
  bool nesterov;
};

class OuterStepTest : public ::testing::TestWithParam<Case> {
protected:
  OuterStepTest() {
    declare();
    object = std::make_unique<StepObject>(fake.build(folder));
    const StepPlan &plan = object->plan();
    backend = std::make_unique<LocalBackend>(plan.deviceBytes, plan.hostBytes);
    step = std::make_unique<Step>(*object, *backend, StepSetup{});
  }

  void declare();
  Floats random() {
    Floats values(kElements);
    for (float &value : values)
      value = std::normal_distribution<float>()(generator);
    return values;
  }
  std::byte *at(uint64_t offset) { return backend->device.data() + offset; }
  Floats shard() { return read(at(kShard), GetParam().isStorageNarrow); }
  Floats own() {
    return GetParam().hasMaster ? read(at(kMaster), false) : shard();
  }
  Floats outer() { return read(backend->host.data() + kOuter, false); }
  void setOwn(const Floats &values) {
    write(at(kShard), GetParam().isStorageNarrow, values);
    if (GetParam().hasMaster)
      write(at(kMaster), false, values);
  }
  void expectUpdate(const Floats &before, const Floats &sum, Floats &momentum);

  SmallPieces pieces{kPiece};
  TemporaryFolder folder;
  FakeStep fake;
  std::mt19937 generator{5};
  std::unique_ptr<StepObject> object;
  std::unique_ptr<LocalBackend> backend;
  std::unique_ptr<Step> step;
};

void OuterStepTest::declare() {
  const Case &which = GetParam();
  const char *storage = which.isStorageNarrow ? "bf16" : "f32";
  const char *sent = which.isSentNarrow ? "bf16" : "f32";
  auto bytes = [](bool isNarrow) { return kElements * (isNarrow ? 2 : 4); };
  Json states = {
      state("shard", storage, device(kShard, bytes(which.isStorageNarrow))),
      state("outer", "f32", host(kOuter, bytes(false)))};
  if (which.hasMaster)
    states.push_back(state("master", "f32", device(kMaster, bytes(false))));
  if (which.momentum != 0)
    states.push_back(
        state("outer_momentum", "f32", host(kMomentum, bytes(false))));
  Json &plan = fake.plan;
  plan["nodes"] = 2;
  plan["device_bytes"] = plan["state_bytes"] = kDeviceEnd;
  plan["planned"]["device_bytes"] = kDeviceEnd;
  plan["host_bytes"] = kHostEnd;
  plan["outer"] = {{"every", 2},
                   {"lr", kRate},
                   {"momentum", which.momentum},
                   {"nesterov", which.nesterov},
                   {"fragments", 1}};
  plan["buckets"].push_back({{"name", "b"},
                             {"unit", "u"},
                             {"trainable", true},
                             {"elements", kElements},
                             {"shard_elements", kElements},
                             {"storage", storage},
                             {"wire", storage},
                             {"reduce", "f32"},
                             {"states", states},
                             {"sharding", "node"}});
  fake.setFunctions({"init", "only_microbatch", "update", "outer_update"});
  fake.add("outer_update",
           {{"kind", "outer_difference"},
            {"bucket", 0},
            {"out", device(kDifference, bytes(which.isSentNarrow))},
            {"type", sent},
            {"elements", kElements}});
  fake.add("outer_update", {{"kind", "outer_update"},
                            {"bucket", 0},
                            {"in", device(kSum, bytes(which.isSentNarrow))},
                            {"type", sent},
                            {"elements", kElements},
                            {"scale", 0.5}});
}

/// Expects that the outer parameters are those of PyTorch's SGD after a
/// gradient of half of `sum`, and that the rank goes on from them. Updates
/// `momentum`.
void OuterStepTest::expectUpdate(const Floats &before, const Floats &sum,
                                 Floats &momentum) {
  const Case &which = GetParam();
  Floats after = outer();
  for (int64_t i = 0; i < kElements; ++i) {
    double gradient = 0.5 * sum[i];
    double kept = which.momentum * momentum[i] + gradient;
    double moved = which.nesterov ? gradient + which.momentum * kept : kept;
    double expected = before[i] - kRate * moved;
    ASSERT_NEAR(after[i], expected, 1e-6 * (1 + std::abs(expected))) << i;
    momentum[i] = float(kept);
  }
  EXPECT_EQ(own(), GetParam().hasMaster
                       ? after
                       : rounded(after, which.isStorageNarrow));
  EXPECT_EQ(shard(), rounded(after, which.isStorageNarrow));
}

TEST_P(OuterStepTest, MovesTheOuterParametersAndGoesOnFromThem) {
  setOwn(random());
  step->init();
  // They start as the job's.
  EXPECT_EQ(outer(), own());
  Floats momentum(kElements);
  for (int i = 0; i < 3; ++i) {
    setOwn(random());
    Floats before = outer(), reached = own(), expected = before;
    Floats sum = rounded(random(), GetParam().isSentNarrow);
    write(at(kSum), GetParam().isSentNarrow, sum);
    step->runAlone({plan::Role::outer_update});
    for (int64_t j = 0; j < kElements; ++j)
      expected[j] -= reached[j];
    EXPECT_EQ(read(at(kDifference), GetParam().isSentNarrow),
              rounded(expected, GetParam().isSentNarrow));
    expectUpdate(before, sum, momentum);
  }
}

TEST_P(OuterStepTest, KeepsThoseOfACheckpoint) {
  setOwn(random());
  Floats saved = random();
  write(backend->host.data() + kOuter, false, saved);
  step->keepStates(plan::StateRole::outer);
  step->init();
  EXPECT_EQ(outer(), saved);
}

INSTANTIATE_TEST_SUITE_P(
    OuterSteps, OuterStepTest,
    ::testing::Values(Case{"f32", false, false, false, 0.9, true},
                      Case{"master", true, true, true, 0.9, true},
                      Case{"bf16", true, false, false, 0.5, false},
                      Case{"withoutMomentum", false, false, true, 0, false},
                      Case{"masterWithoutMomentum", true, true, false, 0,
                           false}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
