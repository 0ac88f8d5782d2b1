// SPDX-License-Identifier: Apache-2.0
//
// How ranks make their parts of the host cache before they begin with the GPU.
// Ranks are threads, each with a fake device of its own.

#include "device/Gpu.h"

#include "core/LibrarySettings.h"
#include "fake/Machine.h"
#include "store/MemoryStore.h"
#include "transports/InProcessTransport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace fcdp;
using fake::Machine;

namespace {

constexpr uint64_t kPart = 1 << 16;

/// The values that the ranks of a job share.
struct JobValues {
  explicit JobValues(Mesh mesh) : mesh(mesh) {
    for (uint32_t rank = 0; rank < mesh.size(); ++rank)
      ranks.push_back(rank);
    group = std::make_unique<InProcessGroup>(ranks);
  }

  const Mesh mesh;
  std::vector<uint32_t> ranks;
  MemoryStore store;
  std::unique_ptr<InProcessGroup> group;
  /// Called before a rank's first use of its segment's name, and before its
  /// first value is set. Optional.
  std::function<void(uint32_t rank)> beforeSegment, beforeFirstSet;
  /// Called with each wait for a value.
  std::function<void(uint32_t rank, const std::string &key, double seconds)>
      onGet;
  /// Number of values that each rank has set.
  std::array<std::atomic<int>, 4> numSet{};
};

/// A job between threads, of which only the store is used.
class ThreadJob final : public Job {
public:
  ThreadJob(JobValues &values, uint32_t rank)
      : values(values), ownPlace(placeOf(values.mesh, rank)),
        transport(values.group->join(rank)) {}

  const Mesh &mesh() const override { return values.mesh; }
  const Place &place() const override { return ownPlace; }
  std::string segmentName() const override {
    if (values.beforeSegment)
      values.beforeSegment(rank());
    return "make-gpu-" + std::to_string(getpid()) + "-" +
           std::to_string(ownPlace.node);
  }
  AxisTransports transports(AxisId) override { refuse(); }
  Transport &control() override { return *transport; }
  std::vector<double> gather(std::span<const double>, const char *) override {
    refuse();
  }
  void barrier(const char *) override { refuse(); }
  void set(const std::string &key, const std::string &value) override {
    if (values.numSet[rank()] == 0 && values.beforeFirstSet)
      values.beforeFirstSet(rank());
    ++values.numSet[rank()];
    values.store.set(key, value);
  }
  std::string get(const std::string &key, double seconds) override {
    if (values.onGet)
      values.onGet(rank(), key, seconds);
    return values.store.get(key, seconds);
  }
  std::optional<std::string> find(const std::string &) override { refuse(); }
  std::vector<std::string> exchange(const std::string &,
                                    const char *) override {
    refuse();
  }
  void abortTransfers() noexcept override {}
  void publishFailure(const std::string &) override {}
  void beginCall(int64_t) noexcept override {}
  void announceEnd(int64_t) override {}
  std::string explainFailure(const std::string &message, FailureKind) override {
    return message;
  }
  void finish() override {}

private:
  [[noreturn]] static void refuse() {
    throw std::logic_error("a job of these tests has a store only");
  }

  JobValues &values;
  const Place ownPlace;
  const std::unique_ptr<Transport> transport;
};

class MakeGpu : public testing::Test {
protected:
  MakeGpu() { reserveLibrarySettings(); }
  ~MakeGpu() override {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.onCall = nullptr;
  }

  /// Makes all ranks' GPUs, with `part` of the host cache each.
  void makeAll(JobValues &values, uint64_t part, double timeout = 30) {
    gpus.resize(values.mesh.size());
    std::vector<std::thread> threads;
    std::vector<std::string> errors(values.mesh.size());
    for (uint32_t rank : values.ranks)
      threads.emplace_back([&, rank] {
        ThreadJob job(values, rank);
        try {
          gpus[rank] = make(job, part, timeout);
        } catch (const std::exception &error) {
          errors[rank] = error.what();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(errors, std::vector<std::string>(values.mesh.size()));
  }
  /// Calls `body` whenever host memory is about to be registered.
  void onRegistration(std::function<void()> body) {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.onCall = [body = std::move(body)](const char *entryPoint) {
      if (entryPoint == std::string("cudaHostRegister"))
        body();
    };
  }

  Machine &machine = Machine::instance();
  std::vector<ProbedGpu> gpus;

private:
  static ProbedGpu make(Job &job, uint64_t part, double timeout) {
    const uint64_t local = job.place().local;
    GpuRequest request;
    request.mesh = job.mesh();
    request.deviceBytes = 4096;
    request.hostBytes = part * job.mesh().locals;
    // At most some pages, also of a large cache.
    request.hostPart = {part * local, part * local + std::min(part, kPart)};
    request.numEvents = 1;
    DeviceOptions options;
    options.timeoutSeconds = timeout;
    return makeProbedGpu(options, request, job);
  }
};

} // namespace

TEST_F(MakeGpu, EachRankLocksItsPartAlone) {
  JobValues values({1, 2});
  makeAll(values, kPart);
  for (uint32_t rank : values.ranks) {
    ASSERT_TRUE(gpus[rank].device.backend);
    const std::byte *base = gpus[rank].device.backend->hostBase();
    for (uint64_t byte : {uint64_t(0), kPart - 1}) {
      EXPECT_TRUE(fake::isPinned(base + rank * kPart + byte));
      EXPECT_FALSE(fake::isPinned(base + (1 - rank) * kPart + byte));
    }
  }
}

// Pages that are locked do not move to the node of another device.
TEST_F(MakeGpu, NoRankLocksPagesBeforeAllOfItsNodeHavePlacedTheirs) {
  JobValues values({1, 2});
  values.beforeFirstSet = [](uint32_t rank) {
    if (rank == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  std::atomic<int> locked{0}, tooEarly{0};
  onRegistration([&] {
    ++locked;
    // A rank says so when it has placed its pages.
    tooEarly += values.numSet[0] == 0 || values.numSet[1] == 0;
  });
  makeAll(values, kPart);
  EXPECT_EQ(locked, 2);
  EXPECT_EQ(tooEarly, 0);
}

// Later waits have no time for the caches of other nodes.
TEST_F(MakeGpu, RanksGoOnWhenTheCachesOfAllNodesAreMade) {
  JobValues values({2, 1});
  values.beforeSegment = [](uint32_t rank) {
    if (rank == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  std::atomic<int> locked{0}, waits{0}, tooEarly{0};
  onRegistration([&] { ++locked; });
  values.onGet = [&](uint32_t, const std::string &key, double) {
    if (key.rfind("gpu/", 0) != 0)
      return;
    ++waits;
    tooEarly += locked < 2;
  };
  makeAll(values, kPart);
  EXPECT_EQ(waits, 2);
  EXPECT_EQ(tooEarly, 0);
}

// Zeroing and locking a large cache takes longer than a wait for a peer may.
TEST_F(MakeGpu, WaitsForALargeCacheAreAsLongAsItTakes) {
  constexpr double timeout = 0.2, leastPageRate = 5e8;
  constexpr uint64_t part = uint64_t(1) << 30;
  JobValues values({1, 2});
  // The rank that offers the segment waits for this one.
  values.beforeSegment = [&](uint32_t rank) {
    if (rank == 1)
      std::this_thread::sleep_for(std::chrono::duration<double>(2 * timeout));
  };
  std::atomic<int> waits{0};
  values.onGet = [&](uint32_t, const std::string &key, double seconds) {
    if (key.rfind("host-cache/", 0) != 0)
      return;
    ++waits;
    EXPECT_DOUBLE_EQ(seconds, timeout + double(2 * part) / leastPageRate);
  };
  makeAll(values, part, timeout);
  EXPECT_GE(waits, 2);
}
