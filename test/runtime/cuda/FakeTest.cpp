// SPDX-License-Identifier: Apache-2.0
//
// Tests the purpose of the fakes: mistakes that a GPU shows only sometimes show
// here every time.

#include "CudaWorld.h"

#include <cuda_runtime_api.h>

using namespace fcdp;

namespace {

class FakeMachine : public testing::Test {
protected:
  static constexpr size_t bytes = 4096;

  std::unique_ptr<CudaWorld> make(fake::Policy policy) {
    conformance::WorldOptions options;
    options.hostBytes = 3 * bytes;
    return std::make_unique<CudaWorld>(options, policy);
  }

  /// Copies a value from host to device to host. The second copy is on a stream
  /// that waits for the first one if `waits`. Returns whether the value
  /// arrived.
  bool arrives(fake::Policy policy, bool waits) {
    auto world = make(policy);
    Backend &backend = world->backend(0);
    backend.hostBase()[0] = std::byte(7);
    backend.copy(StreamId::H2D, backend.deviceBase(), backend.hostBase(),
                 bytes);
    backend.record(0, StreamId::H2D);
    if (waits)
      backend.wait(0, StreamId::D2H);
    backend.copy(StreamId::D2H, backend.hostBase() + bytes,
                 backend.deviceBase(), bytes);
    backend.synchronize();
    return backend.hostBase()[bytes] == std::byte(7);
  }

  /// Reads a value on one stream before another stream overwrites it, which
  /// waits for the read if `waits`. Returns whether the old value was read.
  bool isReadFirst(fake::Policy policy, bool waits) {
    auto world = make(policy);
    Backend &backend = world->backend(0);
    std::byte *device = backend.deviceBase();
    backend.hostBase()[0] = std::byte(7);
    backend.copy(StreamId::H2D, device, backend.hostBase(), bytes);
    backend.synchronize();
    backend.copy(StreamId::H2D, backend.hostBase() + bytes, device, bytes);
    backend.record(0, StreamId::H2D);
    if (waits)
      backend.wait(0, StreamId::Compute);
    backend.copy(StreamId::Compute, device, backend.hostBase() + 2 * bytes,
                 bytes);
    backend.synchronize();
    return backend.hostBase()[bytes] == std::byte(7);
  }
};

} // namespace

TEST_F(FakeMachine, AWaitThatIsMissingShows) {
  EXPECT_TRUE(arrives(fake::Policy::Late, true));
  EXPECT_TRUE(arrives(fake::Policy::Shuffled, true));
  EXPECT_FALSE(arrives(fake::Policy::Late, false));
}

TEST_F(FakeMachine, AWriterThatDoesNotWaitForAReaderShows) {
  EXPECT_TRUE(isReadFirst(fake::Policy::Late, true));
  EXPECT_TRUE(isReadFirst(fake::Policy::Shuffled, true));
  EXPECT_FALSE(isReadFirst(fake::Policy::Late, false));
}

// The stream that is ahead is waited for as on a device.
TEST_F(FakeMachine, OneStreamMayBeAheadOfTheOthers) {
  auto world = make(fake::Policy::Late);
  fake::Machine &machine = fake::Machine::instance();
  auto copyStream = fake::streamOf(world->cudaBackend(0).stream(StreamId::H2D));
  Backend &backend = world->backend(0);
  for (int i = 0; i < 3; ++i)
    backend.copy(StreamId::H2D, backend.deviceBase(), backend.hostBase(),
                 bytes);
  backend.record(0, StreamId::Compute);
  backend.waitOnHost(0);
  EXPECT_EQ(copyStream->issued - copyStream->done, 3u);
  {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.setPolicy(fake::Policy::Ahead, machine.numberOf(copyStream));
  }
  backend.waitOnHost(0);
  EXPECT_EQ(copyStream->issued, copyStream->done);
}

TEST_F(FakeMachine, RunsAllStreamsToTheirEnds) {
  auto world = make(fake::Policy::Late);
  auto copyStream = fake::streamOf(world->cudaBackend(0).stream(StreamId::H2D));
  Backend &backend = world->backend(0);
  backend.copy(StreamId::H2D, backend.deviceBase(), backend.hostBase(), bytes);
  fake::Machine &machine = fake::Machine::instance();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  EXPECT_TRUE(machine.isIdle());
  EXPECT_EQ(copyStream->issued, copyStream->done);
}

TEST_F(FakeMachine, TheHostCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto world = make(fake::Policy::Late);
  EXPECT_DEATH(world->backend(0).deviceBase()[0] = std::byte(1), "");
}

TEST_F(FakeMachine, AccessOutsideOfMemoryIsAFailure) {
  auto world = make(fake::Policy::Late);
  fake::Machine &machine = fake::Machine::instance();
  {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    EXPECT_EQ(machine.translate(world->backend(0).hostBase(), 1 << 30),
              nullptr);
    EXPECT_NE(machine.translate(world->backend(0).deviceBase(), 1 << 20),
              nullptr);
    EXPECT_EQ(machine.translate(world->backend(0).deviceBase() + 1, 1 << 20),
              nullptr);
  }
}

namespace {

/// Gives the machine a speed for as long as it lives.
class SpeedOfMachine {
public:
  explicit SpeedOfMachine(const std::string &text) {
    fake::Machine::instance().speed.emplace(text);
  }
  ~SpeedOfMachine() { fake::Machine::instance().speed.reset(); }
};

} // namespace

namespace {

/// Sets a flag of the machine for as long as it lives.
class FlagOfMachine {
public:
  explicit FlagOfMachine(bool fake::Machine::*flag) : flag(flag) { set(true); }
  ~FlagOfMachine() { set(false); }

private:
  void set(bool value) { fake::Machine::instance().*flag = value; }
  bool fake::Machine::*flag;
};

} // namespace

// So a program's host is timed: nothing is done, and nothing is waited for.
TEST_F(FakeMachine, ADeviceThatDoesNothingHasNoWork) {
  auto world = make(fake::Policy::Late);
  auto copyStream = fake::streamOf(world->cudaBackend(0).stream(StreamId::H2D));
  Backend &backend = world->backend(0);
  std::byte *host = backend.hostBase();
  host[0] = std::byte(7);
  host[bytes] = std::byte(1);
  {
    FlagOfMachine idle(&fake::Machine::doesNothing);
    uint64_t before = copyStream->issued;
    backend.copy(StreamId::H2D, backend.deviceBase(), host, bytes);
    EXPECT_EQ(copyStream->issued, before + 1);
    EXPECT_EQ(copyStream->done, copyStream->issued);
    backend.copy(StreamId::H2D, host + bytes, host, bytes);
    backend.synchronize();
  }
  EXPECT_EQ(host[bytes], std::byte(1));
  EXPECT_EQ(backend.failure(), "");
}

// As libtorch expects of CUDA. Other programs must wait themselves.
TEST_F(FakeMachine, FreeingMemoryMayWaitForTheDevice) {
  auto world = make(fake::Policy::Late);
  auto copyStream = fake::streamOf(world->cudaBackend(0).stream(StreamId::H2D));
  Backend &backend = world->backend(0);
  auto isDoneAfterFreeing = [&] {
    void *other = nullptr;
    EXPECT_EQ(cudaMalloc(&other, bytes), cudaSuccess);
    backend.copy(StreamId::H2D, backend.deviceBase(), backend.hostBase(),
                 bytes);
    EXPECT_EQ(cudaFree(other), cudaSuccess);
    return copyStream->done == copyStream->issued;
  };
  EXPECT_FALSE(isDoneAfterFreeing());
  FlagOfMachine waits(&fake::Machine::freesWait);
  EXPECT_TRUE(isDoneAfterFreeing());
}

// Events show the times of the given speed, however fast this machine is.
TEST_F(FakeMachine, EventsShowTheDevicesOwnTime) {
  SpeedOfMachine speed("h2d=4096,d2h=1024,copy_start=0.5,memory=8192,launch=2");
  auto world = make(fake::Policy::Late);
  Backend &backend = world->backend(0);
  std::unique_ptr<StreamClock> clock = world->cudaBackend(0).makeClock();
  std::byte *device = backend.deviceBase(), *host = backend.hostBase();
  clock->begin();
  clock->mark(StreamId::H2D);
  backend.copy(StreamId::H2D, device, host, bytes);
  clock->mark(StreamId::H2D);
  backend.record(0, StreamId::H2D);
  backend.wait(0, StreamId::D2H);
  backend.copy(StreamId::D2H, host + bytes, device, bytes);
  clock->mark(StreamId::D2H);
  auto *sum = reinterpret_cast<float *>(device);
  clock->mark(StreamId::Compute);
  backend.add(StreamId::Compute, sum, sum, bytes / sizeof(float));
  clock->mark(StreamId::Compute);
  backend.synchronize();
  ASSERT_EQ(backend.failure(), "");
  std::vector<double> loads = clock->read(StreamId::H2D);
  EXPECT_NEAR(loads[1] - loads[0], 0.5 + 1, 1e-6);
  // It has waited for the load.
  EXPECT_NEAR(clock->read(StreamId::D2H)[0] - loads[1], 0.5 + 4, 1e-6);
  std::vector<double> sums = clock->read(StreamId::Compute);
  EXPECT_NEAR(sums[1] - sums[0], 2 + 1.5, 1e-6);
}

TEST_F(FakeMachine, CopiesShareTheMemoryOfTheHost) {
  SpeedOfMachine speed("h2d=4096,d2h=2048,host=4608");
  auto world = make(fake::Policy::Late);
  Backend &backend = world->backend(0);
  std::unique_ptr<StreamClock> clock = world->cudaBackend(0).makeClock();
  std::byte *device = backend.deviceBase(), *host = backend.hostBase();
  // One direction alone is as fast as its link, and both at once are not.
  for (bool isBoth : {false, true, false}) {
    clock->begin();
    for (StreamId stream : {StreamId::H2D, StreamId::D2H})
      clock->mark(stream);
    for (int i = 0; i < 2; ++i)
      backend.copy(StreamId::H2D, device, host, bytes / 2);
    if (isBoth)
      backend.copy(StreamId::D2H, host + bytes, device + bytes, bytes / 2);
    for (StreamId stream : {StreamId::H2D, StreamId::D2H})
      clock->mark(stream);
    backend.synchronize();
    ASSERT_EQ(backend.failure(), "");
    double last = 0;
    for (StreamId stream : {StreamId::H2D, StreamId::D2H}) {
      std::vector<double> marks = clock->read(stream);
      last = std::max(last, marks[1] - marks[0]);
    }
    EXPECT_NEAR(last, isBoth ? 1.5 * bytes / 4608 : bytes / 4096.0, 1e-6);
  }
}

TEST_F(FakeMachine, ProductsBecomeSlowerAndFirstRunsAreSlow) {
  fake::Speed speed("f32=1e6,heat=2.5,sustained=0.5,first=3,firsts=2,"
                    "attention=1e6,masked=0.5,narrow=0.25");
  for (double seconds : {1, 1, 1, 2, 2})
    EXPECT_DOUBLE_EQ(speed.product("f32", 1e6, 0), seconds);
  for (double seconds : {3, 3, 0})
    EXPECT_EQ(speed.first("anything"), seconds);
  EXPECT_DOUBLE_EQ(speed.attention(1e6, 128, false, true), 2);
  EXPECT_DOUBLE_EQ(speed.attention(1e6, 64, false, false), 4);
  EXPECT_TRUE(fake::Speed("bf16=-1").lacks("bf16"));
}

TEST_F(FakeMachine, ASpeedThatIsNotKnownIsAnError) {
  EXPECT_THROW(fake::Speed("f32=1e9,tf32=1"), std::invalid_argument);
  EXPECT_THROW(fake::Speed("f32"), std::invalid_argument);
}
