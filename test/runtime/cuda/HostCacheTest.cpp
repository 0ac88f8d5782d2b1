// SPDX-License-Identifier: Apache-2.0

#include "CudaWorld.h"
#include "cuda/NumaPlacement.h"

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

using namespace fcdp;

namespace {

const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));

class HostCacheTest : public testing::Test {
protected:
  ~HostCacheTest() override { limit(std::nullopt); }

  HostCacheOptions options(uint64_t bytes) {
    HostCacheOptions made;
    made.segment.name = "host-cache-test-" + std::to_string(getpid());
    made.segment.bytes = bytes;
    made.segment.part = {0, bytes};
    return made;
  }
  uint64_t pinned() {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    return machine.pinnedBytes;
  }
  void limit(std::optional<uint64_t> bytes) {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    machine.mostPinnedBytes = bytes;
  }
  std::string errorOf(const HostCacheOptions &given) {
    try {
      CudaHostCache cache(fakeCuda(), given);
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return "";
  }

  fake::Machine &machine = fake::Machine::instance();
};

/// Changes the limit on locked memory while it lives.
class LockLimit {
public:
  explicit LockLimit(uint64_t bytes) {
    getrlimit(RLIMIT_MEMLOCK, &former);
    rlimit lower = former;
    lower.rlim_cur = bytes;
    isSet = setrlimit(RLIMIT_MEMLOCK, &lower) == 0;
  }
  ~LockLimit() { setrlimit(RLIMIT_MEMLOCK, &former); }
  LockLimit(const LockLimit &) = delete;
  LockLimit &operator=(const LockLimit &) = delete;

  bool isSet;

private:
  rlimit former;
};

/// A folder tree like the system's list of devices.
class SystemDevices {
public:
  SystemDevices() {
    char name[] = "/tmp/fcdp-devices-XXXXXX";
    root = mkdtemp(name);
  }
  ~SystemDevices() { std::filesystem::remove_all(root); }
  void add(const std::string &address, const std::string &node) {
    std::filesystem::create_directory(root + "/" + address);
    std::ofstream(root + "/" + address + "/numa_node") << node << "\n";
  }
  std::string root;
};

} // namespace

// The size is not rounded up to a power of two, unlike pinned blocks of
// allocators.
TEST_F(HostCacheTest, LocksThePlansBytesToThePage) {
  uint64_t before = pinned();
  for (uint64_t bytes :
       {uint64_t(1), page - 1, page, page + 1, 5 * page, 1000 * page + 17}) {
    CudaHostCache cache(fakeCuda(), options(bytes));
    EXPECT_EQ(cache.size(), bytes);
    EXPECT_EQ(pinned() - before, (bytes + page - 1) / page * page);
    EXPECT_EQ(cache.lockedBytes(), pinned() - before);
    EXPECT_EQ(cache.base()[bytes - 1], std::byte(0));
  }
  EXPECT_EQ(pinned(), before);
}

TEST_F(HostCacheTest, NoBytesLockNothing) {
  uint64_t before = pinned();
  CudaHostCache cache(fakeCuda(), options(0));
  EXPECT_EQ(cache.base(), nullptr);
  EXPECT_EQ(pinned(), before);
}

// A page that is locked stays where it is.
TEST_F(HostCacheTest, LocksItsOwnPartOnceAllHavePlacedTheirs) {
  const uint64_t before = pinned();
  std::atomic<uint64_t> atMeeting{~uint64_t(0)};
  auto note = [&]() noexcept { atMeeting = pinned(); };
  std::barrier<decltype(note)> meeting(2, note);
  std::barrier<> made(2);
  auto rank = [&](uint32_t local) {
    HostCacheOptions given = options(10 * page);
    given.segment.local = local;
    given.segment.locals = 2;
    // The parts meet inside a page.
    given.segment.part = local == 0 ? SegmentPart{0, 3 * page + 64}
                                    : SegmentPart{3 * page + 64, 10 * page};
    given.meet = [&] { meeting.arrive_and_wait(); };
    CudaHostCache cache(fakeCuda(), given);
    EXPECT_EQ(cache.lockedBytes(), (local == 0 ? 4 : 7) * page);
    EXPECT_TRUE(cache.contains(cache.base() + 10 * page - 1));
    made.arrive_and_wait();
    EXPECT_EQ(pinned() - before, 11 * page);
    made.arrive_and_wait();
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
  EXPECT_EQ(atMeeting, before);
  EXPECT_EQ(pinned(), before);
}

TEST_F(HostCacheTest, LocksNothingWithoutAPart) {
  uint64_t before = pinned();
  HostCacheOptions given = options(3 * page);
  given.segment.part = {};
  CudaHostCache cache(fakeCuda(), given);
  EXPECT_EQ(cache.lockedBytes(), 0u);
  EXPECT_EQ(pinned(), before);
}

TEST_F(HostCacheTest, Moves) {
  uint64_t before = pinned();
  {
    CudaHostCache first(fakeCuda(), options(page));
    std::byte *base = first.base();
    CudaHostCache second(std::move(first));
    EXPECT_EQ(second.base(), base);
    EXPECT_EQ(first.base(), nullptr);
    CudaHostCache third;
    third = std::move(second);
    EXPECT_EQ(third.base(), base);
    EXPECT_TRUE(third.contains(base + page - 1));
    EXPECT_FALSE(third.contains(base + page));
  }
  EXPECT_EQ(pinned(), before);
}

TEST_F(HostCacheTest, SaysWhatForbidsLocking) {
  LockLimit allowed(2 * page);
  ASSERT_TRUE(allowed.isSet);
  limit(2 * page);
  uint64_t before = pinned();
  std::string error = errorOf(options(3 * page));
  std::string bytes = std::to_string(3 * page);
  for (std::string part :
       {"cannot lock " + bytes + " bytes of the host cache in memory",
        std::string("cudaHostRegister: out of memory"),
        "RLIMIT_MEMLOCK is " + std::to_string(2 * page) + " bytes",
        std::string("ulimit -l unlimited")})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(pinned(), before);
}

// The advice to raise the limit would not help if the limit is high enough.
TEST_F(HostCacheTest, DoesNotBlameALimitThatAllowsIt) {
  LockLimit allowed(4 * page);
  ASSERT_TRUE(allowed.isSet);
  limit(2 * page);
  std::string error = errorOf(options(3 * page));
  EXPECT_NE(error.find("cudaHostRegister"), std::string::npos) << error;
  EXPECT_EQ(error.find("ulimit"), std::string::npos) << error;
}

TEST_F(HostCacheTest, SaysThatMemoryDoesNotSuffice) {
  uint64_t before = pinned();
  std::string error = errorOf(options(uint64_t(1) << 60));
  EXPECT_NE(error.find("not enough memory for the host cache"),
            std::string::npos)
      << error;
  EXPECT_EQ(pinned(), before);
}

TEST_F(HostCacheTest, RefusesADeviceThatDoesNotExist) {
  HostCacheOptions given = options(page);
  given.device = 8;
  EXPECT_EQ(errorOf(given), "there is no CUDA device 8: this process sees 8");
}

TEST(NumaPlacement, ReadsTheNodeOfADevice) {
  SystemDevices devices;
  devices.add("0000:3b:00.0", "1");
  devices.add("0000:3c:00.0", "-1");
  devices.add("0000:3d:00.0", "none");
  EXPECT_EQ(numaNodeOf("0000:3B:00.0", devices.root), 1u);
  EXPECT_EQ(numaNodeOf("0000:3c:00.0", devices.root), std::nullopt);
  EXPECT_EQ(numaNodeOf("0000:3d:00.0", devices.root), std::nullopt);
  EXPECT_EQ(numaNodeOf("0000:3e:00.0", devices.root), std::nullopt);
}

// A machine with one NUMA node has node 0, and this changes nothing.
TEST(NumaPlacement, TheSystemTakesWishesForNodesThatItMayHave) {
  HostSegmentOptions options;
  options.name = "numa-test-" + std::to_string(getpid());
  options.bytes = 4 * page;
  HostSegment segment(options);
  EXPECT_TRUE(preferNumaNode(segment.base() + page, 2 * page, 0));
  EXPECT_FALSE(preferNumaNode(segment.base(), page, 1u << 20));
  segment.base()[page] = std::byte(9);
}
