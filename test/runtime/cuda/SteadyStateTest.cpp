// SPDX-License-Identifier: Apache-2.0
//
// Tests which CUDA functions the backend calls in a step, and which not.

#include "CudaWorld.h"

#include <algorithm>
#include <cstring>

using namespace fcdp;

namespace {

constexpr Mesh shape{2, 2};
constexpr size_t shard = 256, slice = 2 * shard, bucket = 4 * shard;

/// Offsets in device memory.
enum : size_t {
  weights = 0,
  sums = 8192,
  scratch = 16384,
  reduced = 24576,
  norms = 32768
};

Collective collective(AxisId axis, StreamId stream, std::byte *in,
                      std::byte *out, size_t bytes,
                      std::byte *scratch = nullptr) {
  Collective made{};
  made.axis = axis;
  made.stream = stream;
  made.in = in;
  made.out = out;
  made.scratch = scratch;
  made.bytes = bytes;
  made.inType = made.outType = DType::F32;
  made.what = "collective of bucket 'b'";
  return made;
}

/// A step as in plans: both gathers in place, a store and a load of the slice,
/// a sum, both reductions, and a sum over ranks, with five waits between
/// streams.
void step(Backend &backend, const Place &place) {
  std::byte *base = backend.deviceBase() + weights;
  std::byte *ownSlice = base + place.local * slice;
  std::byte *cached = backend.hostBase() + place.local * slice;
  backend.allGather(collective(AxisId::Node, StreamId::Inter,
                               ownSlice + place.node * shard, ownSlice, shard));
  backend.record(0, StreamId::Inter);
  backend.wait(0, StreamId::Intra);
  backend.allGather(
      collective(AxisId::Local, StreamId::Intra, ownSlice, base, slice));
  backend.wait(0, StreamId::D2H);
  backend.copy(StreamId::D2H, cached, ownSlice, slice);
  backend.record(1, StreamId::D2H);
  backend.wait(1, StreamId::H2D);
  backend.copy(StreamId::H2D, ownSlice, cached, slice);
  backend.record(2, StreamId::Intra);
  backend.wait(2, StreamId::Compute);
  // Waits on one stream do nothing.
  backend.wait(2, StreamId::Intra);
  auto *sum = reinterpret_cast<float *>(backend.deviceBase() + sums);
  backend.add(StreamId::Compute, sum, reinterpret_cast<float *>(base),
              bucket / sizeof(float));
  backend.record(3, StreamId::Compute);
  backend.wait(3, StreamId::IntraReduce);
  backend.reduceScatter(collective(
      AxisId::Local, StreamId::IntraReduce, backend.deviceBase() + sums,
      backend.deviceBase() + reduced, bucket, backend.deviceBase() + scratch));
  auto *norm = reinterpret_cast<double *>(backend.deviceBase() + norms);
  backend.sumOverRanks(norm, norm + 1, "sum of norms");
}

constexpr uint64_t recordsOfAStep = 4, waitsOfAStep = 5;

class SteadyState : public testing::Test {
protected:
  void runSteps(int steps) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < shape.size(); ++rank)
      threads.emplace_back([&, rank] {
        for (int i = 0; i < steps; ++i)
          step(world.backend(rank), placeOf(shape, rank));
        EXPECT_EQ(world.backend(rank).failure(), "");
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  void synchronize() {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < shape.size(); ++rank)
      threads.emplace_back([&, rank] { world.backend(rank).synchronize(); });
    for (std::thread &thread : threads)
      thread.join();
    for (uint32_t rank = 0; rank < shape.size(); ++rank)
      EXPECT_EQ(world.backend(rank).failure(), "");
  }
  std::map<std::string, uint64_t> takeCalls() {
    fake::Machine &machine = fake::Machine::instance();
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    return std::exchange(machine.calls, {});
  }

  static conformance::WorldOptions options() {
    conformance::WorldOptions options;
    options.mesh = shape;
    return options;
  }
  /// By axis: nodes, ranks of a node, all.
  CudaWorld world{options(),
                  fake::Policy::Late,
                  {{{{shard}, {}}, {{slice}, {bucket / shape.locals}}, {}}}};
};

} // namespace

// Not even in the first step, in which a load could wait for a collective.
TEST_F(SteadyState, LoadsNoKernels) {
  takeCalls();
  runSteps(1);
  EXPECT_EQ(takeCalls()["loads of kernels"], 0u);
  synchronize();
}

// Not even in the first step, which would wait for a peer, or find no memory.
TEST_F(SteadyState, ConnectsNoRanksAndTakesNoMemory) {
  fake::Machine &machine = fake::Machine::instance();
  takeCalls();
  uint64_t before = machine.deviceBytes;
  runSteps(1);
  synchronize();
  EXPECT_EQ(takeCalls()["connections"], 0u);
  EXPECT_EQ(machine.deviceBytes, before);
}

// A plan cannot have the memory of NCCL and of other libraries.
TEST_F(SteadyState, CountsAllMemoryOfTheDevice) {
  fake::Machine &machine = fake::Machine::instance();
  auto [used, total] = world.cudaBackend(0).memory();
  EXPECT_EQ(used, machine.deviceBytes);
  EXPECT_EQ(total, machine.deviceBytes + machine.freeDeviceBytes);
  EXPECT_GT(used, shape.size() * options().deviceBytes);
}

// Connecting uses the arena, in whose memory steps expect zeros.
TEST_F(SteadyState, LeavesTheArenaZero) {
  Backend &backend = world.backend(0);
  const size_t half = options().hostBytes;
  std::memset(backend.hostBase(), 1, half);
  backend.copy(StreamId::D2H, backend.hostBase(), backend.deviceBase(), half);
  synchronize();
  std::byte *host = backend.hostBase();
  EXPECT_EQ(std::count(host, host + half, std::byte(0)), ptrdiff_t(half));
}

TEST_F(SteadyState, AllocatesNothingAndWaitsForNothing) {
  runSteps(1);
  takeCalls();
  constexpr int steps = 10;
  runSteps(steps);
  auto calls = takeCalls();
  for (const char *entryPoint :
       {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister",
        "cudaMemset", "cudaEventCreateWithFlags", "cudaStreamSynchronize",
        "cudaStreamQuery", "cudaEventQuery", "cudaStreamCreateWithPriority",
        "copies of pageable memory", "ncclCommInitRankConfig"})
    EXPECT_EQ(calls[entryPoint], 0u) << entryPoint;
  EXPECT_EQ(calls["threads of NCCL"], 0u);
  EXPECT_EQ(calls["ncclAllGather"], 3 * steps * shape.size());
  synchronize();
  // Even at the end, the backend only polls.
  EXPECT_EQ(takeCalls()["cudaStreamSynchronize"], 0u);
}

// The host polls for that step's end while the next step's work stays queued.
TEST_F(SteadyState, TheHostWaitsForAStepBehindTheNext) {
  constexpr uint32_t stepEnd = 7;
  std::vector<std::thread> threads;
  takeCalls();
  for (uint32_t rank = 0; rank < shape.size(); ++rank)
    threads.emplace_back([&, rank] {
      Backend &backend = world.backend(rank);
      step(backend, placeOf(shape, rank));
      backend.record(stepEnd, StreamId::Compute);
      step(backend, placeOf(shape, rank));
      backend.waitOnHost(stepEnd);
      EXPECT_EQ(backend.failure(), "");
    });
  for (std::thread &thread : threads)
    thread.join();
  auto calls = takeCalls();
  EXPECT_GE(calls["cudaEventQuery"], shape.size());
  EXPECT_EQ(calls["cudaStreamQuery"] + calls["cudaStreamSynchronize"], 0u);
  const auto &compute =
      fake::streamOf(world.cudaBackend(0).stream(StreamId::Compute));
  EXPECT_LT(compute->done, compute->issued);
  synchronize();
}

TEST_F(SteadyState, RecordsEventsOnlyWhereThePlanHasAnEdge) {
  runSteps(1);
  takeCalls();
  constexpr int steps = 10;
  runSteps(steps);
  auto calls = takeCalls();
  EXPECT_EQ(calls["cudaEventRecord"], recordsOfAStep * steps * shape.size());
  EXPECT_EQ(calls["cudaStreamWaitEvent"], waitsOfAStep * steps * shape.size());
  synchronize();
}

TEST_F(SteadyState, CommunicationHasTheGreaterPriority) {
  CudaBackend &backend = world.cudaBackend(0);
  auto priorityOf = [&](StreamId stream) {
    return fake::streamOf(backend.stream(stream))->priority;
  };
  for (size_t i = 0; i < kNumStreams; ++i)
    if (StreamId(i) != StreamId::Compute) {
      EXPECT_LT(priorityOf(StreamId(i)), priorityOf(StreamId::Compute));
    }
  synchronize();
}
