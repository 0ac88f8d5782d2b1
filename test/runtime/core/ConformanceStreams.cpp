// SPDX-License-Identifier: Apache-2.0
//
// Tests copies, streams and events.

#include "Conformance.h"

#include <functional>
#include <future>
#include <numeric>

namespace fcdp::conformance {

static std::vector<uint32_t> counting(size_t count, uint32_t first) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

namespace {
struct Task final : HostTask {
  explicit Task(std::function<void()> work) : work(std::move(work)) {}
  void run() override { work(); }
  std::function<void()> work;
};
} // namespace

TEST_P(Conformance, CopiesCountWhatCrossesTheBorder) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  upload(0, backend, 0, counting(1000, 7));
  backend.copy(StreamId::H2D, backend.deviceBase() + 8192, backend.deviceBase(),
               4000);
  EXPECT_EQ(download<uint32_t>(0, backend, 8192, 1000), counting(1000, 7));
  EXPECT_EQ(backend.counters().links[LinkId::H2D], 4000u);
  EXPECT_EQ(backend.counters().links[LinkId::D2H], 4000u);
}

TEST_P(Conformance, NoBytesToCopyIsFine) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  backend.copy(StreamId::D2H, backend.hostBase(), backend.deviceBase(), 0);
  backend.synchronize();
  EXPECT_FALSE(backend.failed());
  EXPECT_EQ(backend.counters().links[LinkId::D2H], 0u);
}

// Each copy moves what the one before it wrote. There are more copies than a
// queue holds.
TEST_P(Conformance, AStreamKeepsItsOrder) {
  WorldOptions options;
  options.queueCapacity = 4;
  auto world = make(options);
  Backend &backend = world->backend(0);
  upload(0, backend, 0, counting(16, 1));
  constexpr size_t steps = 1000;
  for (size_t i = 0; i < steps; ++i)
    backend.copy(StreamId::H2D, backend.deviceBase() + (i + 1) * 64,
                 backend.deviceBase() + i * 64, 64);
  EXPECT_EQ(download<uint32_t>(0, backend, steps * 64, 16), counting(16, 1));
}

// A sum runs in stream order, after the copy before it.
TEST_P(Conformance, AddsOnEveryStream) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  for (size_t stream = 0; stream < kNumStreams; ++stream) {
    upload(0, backend, 0, std::vector<float>(3000, 0.5f));
    upload(0, backend, 16384, std::vector<float>(3000, 100.0f));
    auto *part = reinterpret_cast<float *>(backend.deviceBase());
    auto *sum = reinterpret_cast<float *>(backend.deviceBase() + 16384);
    backend.copy(StreamId(stream), sum, part, 3000 * sizeof(float));
    backend.add(StreamId(stream), sum, part, 3000);
    backend.add(StreamId(stream), sum, part, 2999);
    std::vector<float> expected(3000, 1.5f);
    expected.back() = 1;
    backend.synchronize();
    EXPECT_EQ(download<float>(0, backend, 16384, 3000), expected);
  }
  EXPECT_FALSE(backend.failed());
}

// The data passes through all streams, and an event is recorded again each
// time.
TEST_P(Conformance, EventsOrderTheStreams) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  upload(0, backend, 0, counting(2048, 3));
  const StreamId streams[] = {StreamId::D2H,   StreamId::Compute,
                              StreamId::Inter, StreamId::IntraReduce,
                              StreamId::H2D,   StreamId::InterReduce,
                              StreamId::Intra};
  size_t at = 0;
  StreamId last = StreamId::H2D;
  for (int round = 0; round < 15; ++round)
    for (StreamId stream : streams) {
      backend.record(1, last);
      backend.wait(1, stream);
      backend.copy(stream, backend.deviceBase() + at + 8192,
                   backend.deviceBase() + at, 8192);
      at += 8192;
      last = stream;
    }
  EXPECT_EQ(download<uint32_t>(0, backend, at, 2048), counting(2048, 3));
}

TEST_P(Conformance, AnEventNeverRecordedIsDone) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  backend.wait(3, StreamId::Compute);
  backend.wait(3, StreamId::Inter);
  backend.synchronize();
  EXPECT_FALSE(backend.failed());
}

TEST_P(Conformance, TheHostWaitsForAnEvent) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  for (uint32_t round = 0; round < 20; ++round) {
    upload(0, backend, 0, counting(2048, round));
    backend.copy(StreamId::D2H, backend.hostBase() + 8192, backend.deviceBase(),
                 8192);
    backend.record(1, StreamId::D2H);
    // This copy is after the mark. It does not matter when it runs, because
    // nothing else writes there.
    backend.copy(StreamId::D2H, backend.hostBase() + 16384,
                 backend.deviceBase() + 8192, 8192);
    backend.waitOnHost(1);
    auto *values = reinterpret_cast<uint32_t *>(backend.hostBase() + 8192);
    EXPECT_EQ(std::vector(values, values + 2048), counting(2048, round));
  }
  backend.waitOnHost(3); // never recorded
  EXPECT_FALSE(backend.failed()) << backend.failure();
}

// Values go down, are changed by the host, and come up, all issued ahead.
TEST_P(Conformance, TasksOfTheHostRunInTheOrderOfTheirStream) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  auto *values = reinterpret_cast<uint32_t *>(backend.hostBase() + 8192);
  int runs = 0;
  Task task([&] {
    ++runs;
    for (uint32_t i = 0; i < 2048; ++i)
      values[i] += 5;
  });
  upload(0, backend, 0, counting(2048, 1));
  for (int round = 0; round < 20; ++round) {
    backend.copy(StreamId::D2H, values, backend.deviceBase(), 8192);
    backend.record(0, StreamId::D2H);
    backend.wait(0, StreamId::Host);
    backend.call(StreamId::Host, task, 0);
    backend.record(1, StreamId::Host);
    backend.wait(1, StreamId::H2D);
    backend.copy(StreamId::H2D, backend.deviceBase(), values, 8192);
    backend.record(2, StreamId::H2D);
    backend.wait(2, StreamId::D2H);
  }
  EXPECT_EQ(download<uint32_t>(0, backend, 0, 2048), counting(2048, 101));
  EXPECT_EQ(runs, 20);
  EXPECT_FALSE(backend.failed()) << backend.failure();
}

TEST_P(Conformance, ATaskOfTheHostDelaysNoOtherStream) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  std::promise<void> second;
  Task waits([&] { second.get_future().wait(); });
  Task ends([&] { second.set_value(); });
  backend.call(StreamId::Host, waits, 0);
  backend.record(0, StreamId::Host);
  backend.call(StreamId::D2H, ends, 0);
  backend.record(1, StreamId::D2H);
  backend.waitOnHost(1);
  backend.waitOnHost(0);
  EXPECT_FALSE(backend.failed()) << backend.failure();
}

TEST_P(Conformance, ATaskOfTheHostThatFailsIsTheFailure) {
  auto world = make(Mesh{1, 1});
  Backend &backend = world->backend(0);
  int runs = 0;
  Task fails([] { throw std::runtime_error("the disk has failed"); });
  Task counts([&] { ++runs; });
  backend.call(StreamId::Host, fails, 0);
  backend.call(StreamId::Host, counts, 0);
  backend.record(0, StreamId::Host);
  backend.wait(0, StreamId::H2D);
  backend.copy(StreamId::H2D, backend.hostBase() + 4096, backend.hostBase(), 1);
  backend.hostBase()[0] = std::byte(1);
  backend.synchronize();
  EXPECT_TRUE(backend.failed());
  EXPECT_EQ(backend.failure(), "the disk has failed");
  EXPECT_EQ(backend.failureKind(), FailureKind::Local);
  // Nothing that waited for it has run.
  EXPECT_EQ(backend.hostBase()[4096], std::byte(0));
  world.reset();
  EXPECT_EQ(runs, 0);
}

TEST_P(Conformance, RefusesAnEventThatDoesNotExist) {
  auto world = make(Mesh{1, 1});
  EXPECT_THROW(world->backend(0).record(8, StreamId::Inter),
               std::runtime_error);
  EXPECT_THROW(world->backend(0).waitOnHost(8), std::runtime_error);
  EXPECT_THROW(world->backend(0).wait(8, StreamId::Inter), std::runtime_error);
}

TEST_P(Conformance, HostMemoryIsSharedByTheNode) {
  auto world = make(Mesh{2, 2});
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(world->backend(rank).hostBase()[5], std::byte(0));
  world->backend(0).hostBase()[5] = std::byte(42);
  EXPECT_EQ(world->backend(1).hostBase()[5], std::byte(42));
  EXPECT_EQ(world->backend(2).hostBase()[5], std::byte(0));
}

TEST_P(Conformance, ArenasOfNoBytesAreFine) {
  WorldOptions options;
  options.mesh = {1, 2};
  options.deviceBytes = options.hostBytes = 0;
  auto world = make(options);
  world->backend(0).synchronize();
  EXPECT_FALSE(world->backend(0).failed());
}

} // namespace fcdp::conformance
