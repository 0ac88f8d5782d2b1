// SPDX-License-Identifier: Apache-2.0
#include "step/StepArena.h"
#include "step/LocalBackend.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// A cache that keeps `cached` bytes of a device which has no more than
/// LocalBackend::kMostGrowth.
class FakeCache final : public c10::DeviceAllocator {
public:
  size_t cached = LocalBackend::kMostGrowth;

  void emptyCache(c10::MempoolId_t) override { cached = 0; }
  bool initialized() override { return true; }
  void recordStream(const c10::DataPtr &, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats
  getDeviceStats(c10::DeviceIndex) override {
    return {};
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  c10::DataPtr allocate(size_t) override { return {}; }
  void copy_data(void *, const void *, size_t) const override {}
};

/// Fails to extend the arena while the cache has the memory.
class FullDevice : public LocalBackend {
public:
  explicit FullDevice(const FakeCache &cache)
      : LocalBackend(4096, 0), cache(cache) {}
  std::shared_ptr<std::byte> extendDevice(uint64_t from, uint64_t to) override {
    if (to + cache.cached > 4096 + kMostGrowth)
      throw std::runtime_error("out of memory");
    return LocalBackend::extendDevice(from, to);
  }

private:
  const FakeCache &cache;
};

} // namespace

// The recorded step leaves the cache with the memory that the extension is for.
TEST(StepArena, AnExtensionEmptiesTheCacheFirst) {
  FakeCache cache;
  FullDevice backend(cache);
  StepPlan plan;
  plan.deviceBytes = 4096;
  StepState state{.plan = plan, .backend = backend, .place = {}};
  EXPECT_THROW(stepArena(state, nullptr).extend(4096, 8192),
               std::runtime_error);
  EXPECT_NE(stepArena(state, &cache).extend(4096, 8192), nullptr);
  EXPECT_EQ(cache.cached, 0u);
}
