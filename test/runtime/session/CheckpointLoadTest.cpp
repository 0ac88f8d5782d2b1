// SPDX-License-Identifier: Apache-2.0
//
// Loads checkpoints into steps that have not saved them.
#include "SessionFixture.h"

#include "core/Pieces.h"
#include "state/CheckpointLoad.h"
#include "step/LocalBackend.h"
#include "step/Step.h"

#include <bit>
#include <set>

using namespace fcdp;
using namespace fcdp::test;

namespace {

// Places of what linearStep has not.
constexpr uint64_t kMaster = 512, kMomentum = 576;

class CheckpointLoadTest : public SessionTest {
protected:
  /// A step whose parameter is in bf16.
  static FakeStep narrowStep(bool hasMaster) {
    FakeStep fake = linearStep(1, 1, 1);
    Json &bucket = fake.plan["buckets"][0];
    fake.plan["parameters"][0]["dtype"] = "bf16";
    fake.plan["optimizer"]["momentum"] = 0.9;
    bucket["storage"] = bucket["wire"] = "bf16";
    const char *wide = hasMaster ? "f32" : "bf16";
    uint64_t bytes = hasMaster ? 32 : 16;
    bucket["states"] = {
        test::state("shard", "bf16", device(0, 16)),
        test::state("grad", "f32", device(64, 32)),
        test::state("momentum_buffer", wide, device(kMomentum, bytes))};
    if (hasMaster)
      bucket["states"].push_back(
          test::state("master", "f32", device(kMaster, 32)));
    return fake;
  }

  std::string saveStep(Session &session, const std::string &name) {
    session.openCheckpoints({folder.file(name)});
    session.saveCheckpoint();
    session.close();
    return folder.file(name);
  }

  std::vector<float> get(Session &session, plan::StateRole role) {
    std::vector<float> values(kElements);
    session.getState("w", role, std::as_writable_bytes(std::span(values)));
    return values;
  }

  /// The random state that a rank of a mesh begins with, given a checkpoint.
  static std::vector<std::byte> randomOf(const StepObject &object,
                                         CheckpointReader &reader,
                                         uint32_t rank, uint64_t seed) {
    const StepPlan &plan = object.plan();
    LocalBackend backend(plan.deviceBytes, plan.hostBytes);
    Place place = placeOf(plan.mesh, rank);
    Step step(object, backend, StepSetup{.place = place});
    loadCheckpoint(plan, place, seed, reader, step);
    return step.randomState();
  }
};

TEST_F(CheckpointLoadTest, AWiderTypeHasAllPieces) {
  const std::vector<uint16_t> value = {0x3f80, 0x4000, 0xbf80,
                                       0x3e80, 0x4110, 0x3f90},
                              momentum = {0x3f00, 0x3f10, 0x3f20,
                                          0x3f30, 0x3f40, 0x3f50};
  std::string run;
  {
    auto narrow = Session::open(
        loadStep(narrowStep(/*hasMaster=*/false).build(folder)), only());
    narrow->setState("w", plan::StateRole::shard, view(value, DType::BF16));
    narrow->setState("w", plan::StateRole::momentum_buffer,
                     view(momentum, DType::BF16));
    run = saveStep(*narrow, "run");
  }
  // Two pieces, of which the last is shorter.
  SmallPieces pieces(4);
  auto wide = Session::open(
      loadStep(narrowStep(/*hasMaster=*/true).build(folder)), only());
  ASSERT_TRUE(wide->loadCheckpoint(run));
  auto widened = [](uint16_t bits) {
    return std::bit_cast<float>(uint32_t(bits) << 16);
  };
  std::vector<float> master = get(*wide, plan::StateRole::master),
                     moved = get(*wide, plan::StateRole::momentum_buffer);
  for (size_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(master[i], widened(value[i])) << i;
    EXPECT_EQ(moved[i], widened(momentum[i])) << i;
  }
  wide->close();
}

TEST_F(CheckpointLoadTest, RanksThatSavedNothingHaveRandomNumbersOfTheirOwn) {
  auto session = openWithValue();
  session->openCheckpoints({folder.file("run")});
  for (int i = 0; i < 2; ++i) {
    session->run(inputs());
    session->read();
    session->saveCheckpoint();
    session->finishCheckpoint();
  }
  session->close();
  session.reset();

  auto object = step(/*locals=*/4);
  std::set<std::vector<std::byte>> states;
  size_t number = 0;
  for (const char *name : {"step-00000001", "step-00000002"}) {
    CheckpointReader reader(folder.file("run") + "/" + name);
    auto saved = randomOf(*object, reader, 0, /*seed=*/5);
    // Saved states do not depend on the seed.
    EXPECT_EQ(saved, randomOf(*object, reader, 0, /*seed=*/6));
    for (uint32_t rank : {1, 2, 3})
      for (uint64_t seed : {100, 200}) {
        auto random = randomOf(*object, reader, rank, seed);
        EXPECT_EQ(random, randomOf(*object, reader, rank, seed));
        states.insert(random);
        ++number;
      }
    states.insert(saved);
  }
  // The ranks, the steps and the seeds have different ones. This step draws no
  // numbers, so both have saved the same.
  EXPECT_EQ(states.size(), number + 1);
}

} // namespace
