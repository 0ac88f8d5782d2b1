// SPDX-License-Identifier: Apache-2.0
//
// Tests how the CUDA backend begins, fails and ends.

#include "CudaWorld.h"
#include "cuda/DeviceArena.h"
#include "cuda/StreamTable.h"
#include "fake/FakeNccl.h"
#include "nccl/NcclMemory.h"

#include <future>
#include <unistd.h>
#include <utility>

using namespace fcdp;

namespace {

class CudaBackendTest : public testing::Test {
protected:
  fake::Machine &machine = fake::Machine::instance();

  template <typename T>
  T locked(T fake::Machine::*member) {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    return machine.*member;
  }
  static CudaBackendOptions options() {
    CudaBackendOptions made;
    made.cuda = fakeCuda();
    made.deviceBytes = 4096;
    made.numEvents = 2;
    made.worldRank = 5;
    return made;
  }
  static std::string makeError(CudaBackendOptions given) {
    try {
      makeCudaBackend(std::move(given));
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return "";
  }
};

Collective gather(AxisId axis, std::byte *in, std::byte *out) {
  Collective made{};
  made.axis = axis;
  made.stream = StreamId::Inter;
  made.in = in;
  made.out = out;
  made.bytes = 64;
  made.inType = made.outType = DType::F32;
  made.what = "all-gather of bucket 'b' over nodes (model.py:1)";
  return made;
}

} // namespace

TEST_F(CudaBackendTest, TakesOneAllocationAndGivesItBack) {
  uint64_t before = locked(&fake::Machine::deviceBytes);
  {
    auto backend = makeCudaBackend(options());
    EXPECT_EQ(locked(&fake::Machine::deviceBytes) - before, 4096u);
  }
  EXPECT_EQ(locked(&fake::Machine::deviceBytes), before);
}

// The memory is zero for every stream, although our streams do not wait for the
// stream that clears it.
TEST_F(CudaBackendTest, DeviceMemoryIsZeroWhenMade) {
  auto cuda = fakeCuda();
  cuda->useDevice(0);
  StreamTable streams(cuda, 0);
  HostCacheOptions cache;
  cache.segment.name = "arena-test-" + std::to_string(getpid());
  cache.segment.bytes = 64;
  cache.segment.part = {0, 64};
  CudaHostCache host(cuda, cache);
  host.base()[0] = std::byte(1);
  DeviceArena arena(cuda, 4096, cudaMemory(cuda));
  ASSERT_EQ(cuda->cudaMemcpyAsync(host.base(), arena.base() + 4032, 64,
                                  cudaMemcpyDefault, streams.at(StreamId::D2H)),
            cudaSuccess);
  while (!streams.isIdle(StreamId::D2H))
    ;
  EXPECT_EQ(host.base()[0], std::byte(0));
}

TEST_F(CudaBackendTest, SaysHowMuchDeviceMemoryItCannotHave) {
  CudaBackendOptions given = options();
  given.deviceBytes = uint64_t(1) << 50;
  EXPECT_EQ(makeError(std::move(given)),
            "cannot reserve 1125899906842624 bytes for the device arena: "
            "cudaMalloc: out of memory (cudaErrorMemoryAllocation); "
            "4294967296 of the device's 4294967296 bytes are free");
  given = options();
  given.deviceBytes = uint64_t(1) << 50;
  given.memory = ncclMemory(fakeNccl());
  EXPECT_EQ(makeError(std::move(given)),
            "cannot reserve 1125899906842624 bytes for the device arena: "
            "ncclMemAlloc: unhandled cuda error; "
            "4294967296 of the device's 4294967296 bytes are free");
}

TEST_F(CudaBackendTest, TellsHowEachGroupHasTheArena) {
  conformance::WorldOptions options;
  options.mesh = {2, 1};
  CudaWorld world(options, fake::Policy::Late);
  EXPECT_EQ(describe(world.cudaBackend(0).registrations()),
            "NCCL has the device arena as window of node-gather, window of "
            "node-reduce, window of world-gather, window of world-reduce");
}

TEST_F(CudaBackendTest, RefusesADeviceThatDoesNotExist) {
  CudaBackendOptions given = options();
  given.device = 9;
  EXPECT_EQ(makeError(std::move(given)),
            "there is no CUDA device 9: this process sees 8");
}

TEST_F(CudaBackendTest, RefusesACollectiveThatNoGroupIsGivenFor) {
  CudaBackendOptions given = options();
  given.axes[size_t(AxisId::Node)].gather =
      std::make_unique<SingleDeviceGroup>(5);
  auto backend = makeCudaBackend(std::move(given));
  std::byte *base = backend->deviceBase();
  backend->allGather(gather(AxisId::Node, base, base));
  backend->synchronize();
  EXPECT_FALSE(backend->failed()) << backend->failure();
  EXPECT_THROW(backend->reduceScatter(gather(AxisId::Node, base, base)),
               std::runtime_error);
  try {
    backend->allGather(gather(AxisId::World, base, base));
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(),
                 "all-gather of bucket 'b' over nodes (model.py:1): the "
                 "backend was given no group for it");
  }
}

TEST_F(CudaBackendTest, RefusesASumOverRanksWithoutAGroupOfAll) {
  auto backend = makeCudaBackend(options());
  auto *number = reinterpret_cast<double *>(backend->deviceBase());
  try {
    backend->sumOverRanks(number, number + 1, "clip_gradients");
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "clip_gradients: the backend was given no group "
                               "of all ranks");
  }
}

TEST_F(CudaBackendTest, AReductionThatCannotBeCutIsAFailure) {
  CudaBackendOptions given = options();
  given.axes[size_t(AxisId::Node)].reduce =
      std::make_unique<SingleDeviceGroup>(5);
  auto backend = makeCudaBackend(std::move(given));
  Collective reduction =
      gather(AxisId::Node, backend->deviceBase(), backend->deviceBase());
  reduction.bytes = 63;
  backend->reduceScatter(reduction);
  EXPECT_EQ(backend->failure(),
            "all-gather of bucket 'b' over nodes (model.py:1): rank 5: cannot "
            "cut 63 bytes of f32 in 1 equal chunks");
}

// The streams stop where they are, and no rank waits for them.
TEST_F(CudaBackendTest, APeersEndAbortsAndNamesTheCollective) {
  conformance::WorldOptions options;
  options.mesh = {2, 1};
  auto world = std::make_unique<CudaWorld>(options, fake::Policy::Late);
  Backend &backend = world->backend(0);
  std::byte *base = backend.deviceBase();
  backend.allGather(gather(AxisId::Node, base, base + 4096));
  Collective second = gather(AxisId::Node, base, base + 8192);
  second.what = "all-gather of bucket 'c' over nodes (model.py:2)";
  backend.allGather(second);
  EXPECT_FALSE(backend.failed());
  fake::killDevice(1);
  backend.synchronize();
  ASSERT_TRUE(backend.failed());
  EXPECT_EQ(backend.failure(),
            "all-gather of bucket 'b' over nodes (model.py:1): rank 0: with "
            "rank 1: remote process exited or there was a network error (the "
            "fake says no more)");
  // No further work is issued.
  backend.copy(StreamId::H2D, base, backend.hostBase(), 64);
  EXPECT_EQ(backend.counters().links[LinkId::H2D], 0u);
  {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.calls.clear();
  }
  world.reset();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  EXPECT_GE(machine.calls["ncclCommAbort"], 4u); // two axes, two directions
}

// The issuer is in a call that returns only when what is in front of it has
// run, which the peer's silence prevents.
TEST_F(CudaBackendTest, AnIssuerThatAHungDeviceKeepsIsFreed) {
  conformance::WorldOptions options;
  options.mesh = {2, 1};
  options.timeoutSeconds = 0.3;
  // An abort frees a communicator under the call, so the failure is reported
  // first.
  std::vector<std::pair<std::string, size_t>> told;
  CudaWorld world(options, fake::Policy::Late, {}, /*reducesByLibrary=*/false,
                  [&](const Failure &failure) {
                    EXPECT_EQ(failure.kind(), FailureKind::TimedOut);
                    told.emplace_back(failure.what(),
                                      fake::liveCommunicators());
                  });
  const size_t live = fake::liveCommunicators();
  Backend &backend = world.backend(0);
  std::byte *base = backend.deviceBase();
  fake::hangDevice(1);
  backend.allGather(gather(AxisId::Node, base, base + 4096));
  // Another group of the device hangs, too.
  Collective sum = gather(AxisId::Node, base, base + 12288);
  sum.stream = StreamId::InterReduce;
  sum.scratch = base + 16384;
  sum.outType = DType::BF16;
  backend.reduceScatter(sum);
  fake::fillCalls(0);
  Collective second = gather(AxisId::Node, base, base + 8192);
  second.what = "all-gather of bucket 'c' over nodes (model.py:2)";
  backend.allGather(second);
  EXPECT_EQ(backend.failure(),
            "all-gather of bucket 'b' over nodes (model.py:1): rank 0: with "
            "rank 1: timed out after 0.3 s");
  using Told = std::vector<std::pair<std::string, size_t>>;
  EXPECT_EQ(told, (Told{{backend.failure(), live}}));
}

// cudaFree waits for the device, on which a collective hangs.
TEST_F(CudaBackendTest, MemoryIsFreedAfterAnAbort) {
  conformance::WorldOptions options;
  options.mesh = {2, 1};
  CudaWorld world(options, fake::Policy::Late);
  Backend &backend = world.backend(0);
  std::byte *base = backend.deviceBase();
  std::shared_ptr<std::byte> extension =
      backend.extendDevice(options.deviceBytes, options.deviceBytes + 4096);
  fake::hangDevice(1);
  backend.allGather(gather(AxisId::Node, base, base + 4096));
  backend.fail("the session was destroyed");
  backend.synchronize(); // the issuer has seen it, so nobody else aborts
  backend.abort();
  EXPECT_EQ(backend.failure(), "the session was destroyed");
  bool former;
  {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    former = std::exchange(machine.freesWait, true);
  }
  std::promise<void> freed;
  std::thread([&] {
    extension.reset();
    freed.set_value();
  }).detach();
  EXPECT_EQ(freed.get_future().wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  machine.freesWait = former;
}

// An issuer that sees the failure aborts the groups when it ends. Until then
// nothing that follows the failed collective runs.
TEST_F(CudaBackendTest, AnIssuerThatSeesAFailureIsLeftAlone) {
  conformance::WorldOptions options;
  options.mesh = {2, 1};
  CudaWorld world(options, fake::Policy::Late);
  const size_t live = fake::liveCommunicators();
  Backend &backend = world.backend(0);
  std::byte *base = backend.deviceBase();
  backend.allGather(gather(AxisId::Node, base, base + 4096));
  fake::killDevice(1);
  backend.synchronize();
  ASSERT_TRUE(backend.failed());
  std::this_thread::sleep_for(
      std::chrono::duration<double>(3 * CudaWorld::noticeSeconds));
  EXPECT_EQ(fake::liveCommunicators(), live);
}

// The library has no sum of bf16 in f32, so such a reduction stays as it is.
TEST_F(CudaBackendTest, TheLibrarySumsWhereTypesAllow) {
  conformance::WorldOptions options;
  options.mesh = {2, 1};
  CudaWorld world(options, fake::Policy::Late, {}, /*reducesByLibrary=*/true);
  auto reduce = [&](DType inType, size_t bytes) {
    {
      std::lock_guard<std::recursive_mutex> lock(machine.mutex);
      machine.calls.clear();
    }
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        Backend &backend = world.backend(rank);
        auto *host = reinterpret_cast<float *>(backend.hostBase());
        std::fill(host, host + 16, float(rank + 1));
        std::byte *base = backend.deviceBase();
        backend.copy(StreamId::InterReduce, base, host, 64);
        Collective made = gather(AxisId::Node, base, base + 1024);
        made.stream = StreamId::InterReduce;
        made.scratch = base + 2048;
        made.bytes = bytes;
        made.inType = inType;
        made.outType = DType::F32;
        backend.reduceScatter(made);
        backend.copy(StreamId::InterReduce, host, base + 1024, 32);
        backend.synchronize();
        EXPECT_EQ(backend.failure(), "");
        if (inType == DType::F32) {
          EXPECT_EQ(host[0], 3.0f);
          EXPECT_EQ(host[7], 3.0f);
        }
      });
    for (std::thread &rank : ranks)
      rank.join();
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    return std::pair(machine.calls["ncclReduceScatter"],
                     machine.calls["ncclSend"]);
  };
  EXPECT_EQ(reduce(DType::F32, 64), std::pair(uint64_t(2), uint64_t(0)));
  EXPECT_EQ(reduce(DType::BF16, 32), std::pair(uint64_t(0), uint64_t(2)));
}

// libtorch checks the last error of the thread after each launch, so a query
// that finds work undone must not leave one.
TEST_F(CudaBackendTest, AQueryOfUndoneWorkLeavesNoError) {
  auto cuda = fakeCuda();
  cuda->useDevice(0);
  StreamTable streams(cuda, 1);
  fake::Machine &fake = fake::Machine::instance();
  bool mayRun = false;
  {
    std::lock_guard<std::recursive_mutex> lock(fake.mutex);
    fake.enqueue(fake::streamOf(streams.at(StreamId::Compute)),
                 [&] { return mayRun; });
  }
  streams.record(0, StreamId::Compute);
  EXPECT_FALSE(streams.isIdle(StreamId::Compute));
  EXPECT_EQ(cuda->cudaGetLastError(), cudaSuccess);
  EXPECT_FALSE(streams.isReached(0));
  EXPECT_EQ(cuda->cudaGetLastError(), cudaSuccess);
  mayRun = true;
  EXPECT_TRUE(streams.isIdle(StreamId::Compute));
}

// An illegal access shows later, in a call that has done nothing wrong.
TEST_F(CudaBackendTest, AFailureOfQueuedWorkIsKept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        auto backend = makeCudaBackend(options());
        std::byte *base = backend->deviceBase();
        backend->add(StreamId::Compute, reinterpret_cast<float *>(base),
                     reinterpret_cast<float *>(base), 4096);
        bool failedAtOnce = backend->failed();
        backend->synchronize();
        std::fprintf(stderr, "%d %s\n", failedAtOnce,
                     backend->failure().c_str());
        backend.reset();
        std::_Exit(0);
      },
      testing::ExitedWithCode(0),
      "^0 stream compute: rank 5: cudaStreamQuery: an illegal memory access "
      "was encountered \\(cudaErrorIllegalAddress\\)");
}
