// SPDX-License-Identifier: Apache-2.0
#include "step/Pool.h"
#include "step/LifetimePlan.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <thread>

using namespace fcdp;

namespace {

c10::DataPtr take(size_t bytes) {
  return c10::GetCPUAllocator()->allocate(bytes);
}

/// Runs a step and returns how often the system was asked.
template <typename Body>
uint64_t step(Pool &pool, Body body) {
  uint64_t before = pool.systemAllocations();
  pool.beginStep();
  {
    Pool::Scope scope(pool);
    body();
  }
  pool.endStep();
  return pool.systemAllocations() - before;
}

void threeTensors() {
  c10::DataPtr a = take(1000);
  c10::DataPtr b = take(2000);
  a.clear();
  c10::DataPtr c = take(900);
}

TEST(PoolTest, AsksTheSystemInTheFirstStepOnly) {
  Pool pool;
  EXPECT_EQ(step(pool, threeTensors), 3u);
  EXPECT_EQ(step(pool, threeTensors), 0u);
  EXPECT_EQ(step(pool, threeTensors), 0u);
}

TEST(PoolTest, ReusesMemoryOfTheDead) {
  Pool pool;
  step(pool, threeTensors);
  // c takes a's place.
  EXPECT_EQ(pool.regionBytes(), 1024u + 2048u + 2 * kPoolTagBytes);
  EXPECT_GE(pool.peakBytes(), pool.regionBytes());
}

TEST(PoolTest, AlignsTo64Bytes) {
  Pool pool;
  auto body = [] {
    std::vector<c10::DataPtr> all;
    for (size_t bytes : {1, 3, 65, 128, 7}) {
      all.push_back(take(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back().get()) % 64, 0u);
    }
  };
  step(pool, body);
  step(pool, body);
}

TEST(PoolTest, GivesTheSamePlacesInEachStep) {
  Pool pool;
  std::vector<void *> places;
  auto body = [&] {
    places.push_back(take(100).get());
    places.push_back(take(100).get());
  };
  step(pool, body);
  places.clear();
  step(pool, body);
  step(pool, body);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[3]);
}

TEST(PoolTest, NoBytesNeedNoMemory) {
  Pool pool;
  auto body = [] { take(0); };
  EXPECT_EQ(step(pool, body), 0u);
  EXPECT_EQ(step(pool, body), 0u);
}

TEST(PoolTest, AnotherSizeFallsBackAndIsRecordedAnew) {
  Pool pool;
  auto sizes = [](size_t first, size_t second) {
    return [=] {
      c10::DataPtr a = take(first);
      c10::DataPtr b = take(second);
      std::memset(a.get(), 1, first);
      std::memset(b.get(), 2, second);
    };
  };
  step(pool, sizes(100, 200));
  EXPECT_EQ(step(pool, sizes(100, 200)), 0u);
  // The first fits the record, the second comes from the system.
  EXPECT_EQ(step(pool, sizes(100, 300)), 1u);
  EXPECT_EQ(step(pool, sizes(100, 300)), 2u);
  EXPECT_EQ(step(pool, sizes(100, 300)), 0u);
}

TEST(PoolTest, MoreAllocationsFallBackAndAreRecordedAnew) {
  Pool pool;
  auto many = [](int count) {
    return [=] {
      for (int i = 0; i < count; ++i)
        take(100);
    };
  };
  step(pool, many(2));
  EXPECT_EQ(step(pool, many(3)), 1u);
  EXPECT_EQ(step(pool, many(3)), 3u);
  EXPECT_EQ(step(pool, many(3)), 0u);
  EXPECT_EQ(step(pool, many(1)), 0u);
}

TEST(PoolTest, LateFreeIsAnErrorBeforeThePlaceIsReused) {
  Pool pool;
  auto early = [] {
    take(100);
    take(100);
  };
  step(pool, early);
  pool.beginStep();
  Pool::Scope scope(pool);
  c10::DataPtr kept = take(100);
  std::memset(kept.get(), 7, 100);
  try {
    take(100);
    FAIL() << "expected an error";
  } catch (const c10::Error &error) {
    EXPECT_NE(std::string(error.what())
                  .find("allocation 0 of this step is still in use"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(static_cast<char *>(kept.get())[99], 7);
}

TEST(PoolTest, WhatOutlivesTheStepHasItsOwnMemory) {
  Pool pool;
  c10::DataPtr kept;
  auto body = [&] {
    take(64);
    c10::DataPtr fresh = take(64);
    std::memset(fresh.get(), 5, 64);
    kept = std::move(fresh);
    take(64);
  };
  step(pool, body);
  c10::DataPtr first = std::move(kept);
  EXPECT_EQ(step(pool, body), 1u);
  c10::DataPtr second = std::move(kept);
  EXPECT_EQ(step(pool, body), 1u);
  EXPECT_NE(first.get(), second.get());
  EXPECT_NE(second.get(), kept.get());
  for (const c10::DataPtr *data : {&first, &second, &kept})
    EXPECT_EQ(static_cast<char *>(data->get())[63], 5);
}

TEST(PoolTest, MemoryOutlivesThePool) {
  c10::DataPtr kept, recorded;
  {
    Pool pool;
    auto body = [&](bool keep) {
      return [&, keep] {
        c10::DataPtr data = take(256);
        if (keep)
          kept = std::move(data);
      };
    };
    step(pool, body(false));
    step(pool, body(true));
  }
  std::memset(kept.get(), 1, 256);
  {
    Pool pool;
    step(pool, [&] { recorded = take(256); });
  }
  std::memset(recorded.get(), 1, 256);
}

TEST(PoolTest, StillInUseAtTheNextStepIsRecordedAnew) {
  Pool pool;
  c10::DataPtr kept;
  step(pool, [] { take(64); });
  step(pool, [&] { kept = take(64); });
  EXPECT_EQ(step(pool, [] { take(64); }), 1u);
  EXPECT_EQ(step(pool, [] { take(64); }), 0u);
}

TEST(PoolTest, OtherThreadsUseTheSystem) {
  Pool pool;
  auto body = [] {
    c10::DataPtr own = take(64);
    std::thread([] { take(1 << 20); }).join();
  };
  EXPECT_EQ(step(pool, body), 1u);
  EXPECT_EQ(step(pool, body), 0u);
  EXPECT_EQ(pool.regionBytes(), 64u + kPoolTagBytes);
}

TEST(PoolTest, MayBeFreedByAnotherThread) {
  Pool pool;
  auto body = [] {
    c10::DataPtr own = take(64);
    std::thread([data = std::move(own)]() mutable { data.clear(); }).join();
    take(64);
  };
  step(pool, body);
  EXPECT_EQ(step(pool, body), 0u);
}

TEST(PoolTest, MathsLibrariesFreeByPointer) {
  Pool pool;
  auto body = [] {
    c10::Allocator &allocator = *c10::GetCPUAllocator();
    allocator.raw_deallocate(allocator.raw_allocate(100));
    allocator.raw_deallocate(allocator.raw_allocate(0));
    allocator.raw_deallocate(allocator.raw_allocate(100));
  };
  body();
  EXPECT_EQ(step(pool, body), 2u);
  EXPECT_EQ(step(pool, body), 0u);
  EXPECT_EQ(pool.regionBytes(), 128u + kPoolTagBytes);
}

TEST(PoolTest, OutsideAScopeNothingIsCounted) {
  Pool pool;
  step(pool, threeTensors);
  uint64_t before = pool.systemAllocations();
  take(128);
  EXPECT_EQ(pool.systemAllocations(), before);
}

/// No two allocations that live at the same time may share a byte.
void expectDisjoint(const std::vector<Lifetime> &lifetimes,
                    const Placement &placement) {
  for (size_t i = 0; i < lifetimes.size(); ++i)
    for (size_t j = i + 1; j < lifetimes.size(); ++j) {
      bool both = lifetimes[i].freedAt > j;
      bool apart =
          placement.offsets[i] + lifetimes[i].bytes <= placement.offsets[j] ||
          placement.offsets[j] + lifetimes[j].bytes <= placement.offsets[i];
      ASSERT_TRUE(!both || apart) << i << " and " << j;
    }
}

TEST(LifetimePlanTest, RandomLifetimesNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> lifetimes(200);
    size_t live = 0;
    for (uint32_t i = 0; i < lifetimes.size(); ++i) {
      lifetimes[i].bytes = 1 + random() % 5000;
      lifetimes[i].freedAt = i + 1 + random() % 30;
      live += lifetimes[i].bytes;
    }
    Placement placement = placeLifetimes(lifetimes);
    expectDisjoint(lifetimes, placement);
    EXPECT_LT(placement.regionBytes, live);
    for (size_t offset : placement.offsets)
      EXPECT_EQ(offset % kPoolAlignment, 0u);
  }
}

TEST(LifetimePlanTest, ChainNeedsTwoPlaces) {
  std::vector<Lifetime> chain;
  for (uint32_t i = 0; i < 100; ++i)
    chain.push_back({640, i + 2});
  EXPECT_EQ(placeLifetimes(chain).regionBytes, 1280u);
}

} // namespace
