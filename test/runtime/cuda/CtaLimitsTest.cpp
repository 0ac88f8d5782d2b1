// SPDX-License-Identifier: Apache-2.0
//
// Tests that collectives of several communicators leave room for each other.

#include "nccl/CtaLimits.h"
#include "CudaWorld.h"
#include "fake/FakeNccl.h"

#include <bit>

using namespace fcdp;

namespace {

/// Two nodes of one rank each, on devices that have room for the collective of
/// one communicator, as NCCL makes it by itself, and not for two.
class TwoCommunicators : public testing::Test {
protected:
  TwoCommunicators() {
    fake::resetNccl();
    fake::Machine &machine = fake::Machine::instance();
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.setPolicy(fake::Policy::Late, 0);
    machine.calls.clear();
    former = std::exchange(machine.multiprocessors, 48);
  }
  ~TwoCommunicators() override {
    inParallel([&](uint32_t rank) { axes[rank] = {}; });
    fake::Machine &machine = fake::Machine::instance();
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.multiprocessors = former;
    EXPECT_EQ(machine.busyMultiprocessors[0], 0);
    EXPECT_EQ(machine.busyMultiprocessors[1], 0);
  }

  template <typename Body>
  static void inParallel(Body body) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] { body(rank); });
    for (std::thread &thread : threads)
      thread.join();
  }
  void join(uint32_t rank) {
    NcclAxesOptions options;
    options.nccl = fakeNccl();
    options.cuda = fakeCuda();
    options.device = int(rank);
    options.mesh = {2, 1};
    options.place = {rank, 0};
    options.localGroups = {false, false};
    options.ids = exchangeOver(store);
    axes[rank] = joinAxes(options);
  }

  MemoryStore store;
  std::array<NcclAxes, 2> axes;

private:
  int former;
};

} // namespace

// A reduction starts on one rank, and a gather on the other, before the peer
// has issued its own.
TEST_F(TwoCommunicators, CollectivesThatStartInAnyOrderEnd) {
  inParallel([&](uint32_t rank) { join(rank); });
  auto cuda = fakeCuda();
  std::array<std::array<cudaStream_t, 2>, 2> streams;
  std::array<std::byte *, 2> memory;
  for (int rank = 0; rank < 2; ++rank) {
    cuda->useDevice(rank);
    void *allocated = nullptr;
    ASSERT_EQ(cuda->cudaMalloc(&allocated, 4096), cudaSuccess);
    memory[rank] = static_cast<std::byte *>(allocated);
    for (cudaStream_t &stream : streams[rank])
      ASSERT_EQ(
          cuda->cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0),
          cudaSuccess);
  }
  auto issue = [&](uint32_t rank, bool isGather) {
    auto &[gather, reduce] = axes[rank][size_t(AxisId::Node)];
    std::byte *base = memory[rank];
    cuda->useDevice(int(rank));
    if (isGather)
      gather->allGather(base, base + 1024, 64, streams[rank][0]);
    else
      reduce->exchangeChunks(base, base + 2048, 64, streams[rank][1]);
  };
  auto isDone = [&](uint32_t rank, bool isGather) {
    return cuda->isReady(cuda->cudaStreamQuery(streams[rank][isGather ? 0 : 1]),
                         "cudaStreamQuery");
  };
  for (uint32_t rank = 0; rank < 2; ++rank) {
    issue(rank, rank == 0);
    EXPECT_FALSE(isDone(rank, rank == 0));
  }
  for (uint32_t rank = 0; rank < 2; ++rank)
    issue(rank, rank == 1);
  for (uint32_t rank = 0; rank < 2; ++rank)
    for (bool isGather : {false, true})
      EXPECT_TRUE(isDone(rank, isGather)) << rank << " " << isGather;
  for (int rank = 0; rank < 2; ++rank) {
    for (cudaStream_t stream : streams[rank])
      (void)cuda->cudaStreamDestroy(stream);
    (void)cuda->cudaFree(memory[rank]);
  }
}

// Nothing else fills the network of a machine with one rank.
TEST_F(TwoCommunicators, ALoneRankOfAMachineSendsOverMoreChannels) {
  inParallel([&](uint32_t rank) { join(rank); });
  fake::Machine &machine = fake::Machine::instance();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  EXPECT_EQ(machine.calls["node-reduce with 4 channels to a peer"], 2u);
  EXPECT_EQ(machine.calls["node-gather with 4 channels to a peer"], 0u);
}

static uint32_t sumOf(const CtaLimits &limits, const GroupCounts &groups) {
  return groups.gathersWithin * limits.gathersWithin +
         groups.reductionsWithin * limits.reductionsWithin +
         groups.betweenNodes * limits.betweenNodes +
         groups.control * limits.control;
}

// An H100 has 132 multiprocessors, an A100 108, an A10 72, a B200 148.
TEST(CtaLimits, AllCommunicatorsTakeHalfOfTheDeviceAtMost) {
  GroupCounts usual{1, 1, /*betweenNodes=*/2, /*control=*/1};
  CtaLimits hopper = limitCtas(132, 9, usual);
  EXPECT_EQ(hopper.gathersWithin, 12u);
  EXPECT_EQ(hopper.reductionsWithin, 16u);
  EXPECT_EQ(hopper.betweenNodes, 4u);
  EXPECT_EQ(hopper.control, 1u);
  EXPECT_EQ(limitCtas(108, 8, usual).gathersWithin, 16u);
  GroupCounts all{2, 2, 2, 1};
  EXPECT_EQ(limitCtas(132, 9, all).gathersWithin, 12u);
  EXPECT_EQ(limitCtas(132, 9, all).reductionsWithin, 16u);
  for (uint32_t multiprocessors : {20u, 72u, 108u, 132u, 148u})
    for (uint32_t major : {8u, 9u, 10u}) {
      CtaLimits limits = limitCtas(multiprocessors, major, all);
      EXPECT_LE(sumOf(limits, all), multiprocessors / 2);
      EXPECT_TRUE(std::has_single_bit(limits.reductionsWithin));
      EXPECT_TRUE(std::has_single_bit(limits.betweenNodes));
    }
}

TEST(CtaLimits, ADeviceThatIsTooSmallHasOneForEach) {
  CtaLimits limits = limitCtas(8, 8, {2, 2, 2, 1});
  EXPECT_EQ(limits.gathersWithin, 1u);
  EXPECT_EQ(limits.reductionsWithin, 1u);
  EXPECT_EQ(limits.betweenNodes, 1u);
}
