// SPDX-License-Identifier: Apache-2.0
#include "memory/Pool.h"
#include "memory/LifetimePlan.h"
#include "operators/CpuPool.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <thread>

using namespace fcdp;

namespace {

/// An arena that the pool may have alone.
class TestArena {
public:
  explicit TestArena(size_t reserved = 0, size_t bytes = 0) {
    memory.reserve(kMost);
    memory.resize(bytes);
    arena.base = base();
    arena.bytes = bytes;
    arena.reserved = reserved;
    arena.extend = [this](uint64_t from, uint64_t to) {
      if (to > kMost - 64)
        throw std::runtime_error("no memory");
      memory.resize(to);
      return std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(),
                                        base() + from);
    };
  }
  /// Has the pool find `data` if it must be moved.
  void know(c10::DataPtr &data) {
    arena.moveOut = [&data](std::span<const std::byte> bytes,
                            const PoolArena::Allocate &allocate) {
      auto *begin = static_cast<std::byte *>(data.get());
      if (begin < bytes.data() || begin >= bytes.data() + bytes.size())
        return;
      c10::DataPtr other = allocate(bytes.size());
      std::memcpy(other.get(), begin,
                  size_t(bytes.data() + bytes.size() - begin));
      data = std::move(other);
    };
  }
  std::byte *base() {
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (64 - address % 64) % 64;
  }
  operator PoolArena() const { return arena; }

private:
  static constexpr size_t kMost = 1 << 20;
  std::vector<std::byte> memory;
  PoolArena arena;
};

c10::DataPtr take(size_t bytes) {
  return c10::GetCPUAllocator()->allocate(bytes);
}

/// Runs a step and returns how often the system was asked.
template <typename Body>
uint64_t step(ResultPool &pool, Body body) {
  uint64_t before = pool.systemAllocations();
  pool.beginStep();
  {
    ResultPool::Scope scope(pool);
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
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  EXPECT_EQ(step(pool, threeTensors), 3u);
  EXPECT_EQ(step(pool, threeTensors), 0u);
  EXPECT_EQ(step(pool, threeTensors), 0u);
}

TEST(PoolTest, ReusesMemoryOfTheDead) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  step(pool, threeTensors);
  // c takes a's place.
  EXPECT_EQ(pool.regionBytes(), 1024u + 2048u + 2 * kPoolTagBytes);
  EXPECT_EQ(pool.systemBytes(), 3000u + 2 * kPoolTagBytes);
}

TEST(PoolTest, AlignsTo64Bytes) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
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
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
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
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  auto body = [] { take(0); };
  EXPECT_EQ(step(pool, body), 0u);
  EXPECT_EQ(step(pool, body), 0u);
}

TEST(PoolTest, AnotherSizeFallsBackAndIsRecordedAnew) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
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

TEST(PoolTest, AllocationsApartAreNotRecorded) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  auto sometimes = [](size_t bytes) {
    return [=] {
      c10::DataPtr a = take(100);
      {
        ResultPool::Apart apart;
        c10::DataPtr other = take(bytes);
      }
      c10::DataPtr b = take(200);
    };
  };
  EXPECT_EQ(step(pool, sometimes(1000)), 3u);
  for (size_t bytes : {0, 500, 1000, 0}) {
    EXPECT_EQ(step(pool, sometimes(bytes)), bytes ? 1u : 0u);
    EXPECT_EQ(pool.systemBytes(), bytes ? bytes + kPoolTagBytes : 0);
  }
  EXPECT_EQ(pool.numRecordings(), 1u);
  ResultPool::Apart withoutAPool;
}

TEST(PoolTest, MoreAllocationsFallBackAndAreRecordedAnew) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
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

TEST(PoolTest, ALateAllocationKeepsItsPlace) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  auto early = [] {
    take(100);
    take(100);
  };
  step(pool, early);
  EXPECT_EQ(step(pool,
                 [] {
                   c10::DataPtr kept = take(100);
                   std::memset(kept.get(), 7, 100);
                   c10::DataPtr other = take(100);
                   std::memset(other.get(), 1, 100);
                   EXPECT_EQ(static_cast<char *>(kept.get())[99], 7);
                 }),
            1u);
}

TEST(PoolTest, WhatOutlivesTheStepHasItsOwnMemory) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
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
  TestArena arena;
  c10::DataPtr kept, recorded;
  {
    ResultPool pool(arena, routeCpuAllocations());
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
    ResultPool pool(arena, routeCpuAllocations());
    step(pool, [&] { recorded = take(256); });
  }
  std::memset(recorded.get(), 1, 256);
}

/// Calls `body` and expects an error that says `what`.
template <typename Body>
void expectError(Body body, const std::string &what) {
  try {
    body();
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos)
        << error.what();
  }
}

TEST(PoolTest, StillInUseAtTheNextStepIsAnError) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  c10::DataPtr kept;
  step(pool, [] { take(64); });
  step(pool, [&] { kept = take(64); });
  expectError(
      [&] { pool.beginStep(); },
      "memory that an operator took in the step before is still in use");
}

TEST(PoolTest, WhatTheArenaCannotHoldIsAnError) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  expectError([&] { step(pool, [] { take(2 << 20); }); }, "no memory");
}

/// As on a GPU, whose memory does not grow: what does not end in the arena is
/// elsewhere, as far apart as it would be.
TEST(PoolTest, TheArenaMayGoOnElsewhere) {
  alignas(64) std::byte near[256], far[1024];
  uint64_t from = 0, to = 0;
  PoolArena arena;
  arena.base = near;
  arena.bytes = sizeof(near);
  arena.extend = [&](uint64_t begin, uint64_t end) {
    from = begin;
    to = end;
    return std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), far);
  };
  ResultPool pool(arena, routeCpuAllocations());
  std::vector<std::byte *> places;
  auto body = [&] {
    std::vector<c10::DataPtr> all;
    for (size_t bytes : {128, 64, 64}) {
      all.push_back(take(bytes));
      places.push_back(static_cast<std::byte *>(all.back().get()) -
                       kPoolTagBytes);
    }
  };
  step(pool, body);
  EXPECT_EQ(to, 192u + 128 + 128);
  EXPECT_EQ(from, 192u); // the second would end after the arena
  places.clear();
  EXPECT_EQ(step(pool, body), 0u);
  EXPECT_EQ(places, (std::vector<std::byte *>{near, far, far + 128}));
}

/// A function of four operations. A buffer of 512 bytes follows states of 256
/// bytes, and is reserved while the second and the third operation run.
Reservations makeReserved() {
  return Reservations({{/*from=*/1, /*to=*/3, /*offset=*/256, /*bytes=*/512}});
}

/// Runs `ops` in `pool` as a function.
uint64_t runFunction(ResultPool &pool, const Reservations &reserved,
                     const std::vector<std::function<void()>> &ops,
                     const std::vector<plan::ResultPlace> &results = {}) {
  return step(pool, [&] {
    pool.beginFunction(reserved, results);
    for (size_t i = 0; i < ops.size(); ++i) {
      pool.reach(i);
      ops[i]();
    }
    pool.endFunction();
  });
}

TEST(PoolTest, UsesWhatIsNotReserved) {
  TestArena arena(/*reserved=*/256, /*bytes=*/1024);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  std::vector<std::byte *> places;
  auto note = [&](size_t bytes) {
    c10::DataPtr data = take(bytes);
    places.push_back(static_cast<std::byte *>(data.get()) - kPoolTagBytes);
    return data;
  };
  c10::DataPtr kept;
  std::vector<std::function<void()>> ops = {
      [&] { note(448); }, // before the buffer
      [&] {
        note(192); // beside it
        kept = note(64);
      },
      [&] { kept.clear(); }, [&] { note(448); }}; // after it
  runFunction(pool, reserved, ops);
  EXPECT_EQ(pool.systemBytes(), 512u);
  EXPECT_EQ(pool.regionBytes(), 1024u);
  places.clear();
  EXPECT_EQ(runFunction(pool, reserved, ops), 0u);
  EXPECT_EQ(pool.systemBytes(), 0u);
  EXPECT_EQ(places[0], arena.base() + 256);
  EXPECT_EQ(places[1], arena.base() + 768);
  EXPECT_EQ(places[2], arena.base() + 768);
  EXPECT_EQ(places[3], arena.base() + 256);
}

TEST(PoolTest, WhatLivesOnIsNotWhereABufferComes) {
  TestArena arena(/*reserved=*/256, /*bytes=*/768);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  c10::DataPtr kept;
  std::byte *place = nullptr;
  std::vector<std::function<void()>> ops = {
      [&] {
        kept = take(64);
        place = static_cast<std::byte *>(kept.get()) - kPoolTagBytes;
      },
      [&] { kept.clear(); }};
  runFunction(pool, reserved, ops);
  EXPECT_EQ(pool.regionBytes(), 896u); // the arena grows
  EXPECT_EQ(runFunction(pool, reserved, ops), 0u);
  EXPECT_EQ(place, arena.base() + 768);
}

/// Its operation may ask for more, which nobody planned, before or after.
TEST(PoolTest, ResultsAreWherePlannedInTheRecordedStep) {
  TestArena arena(/*reserved=*/256, /*bytes=*/1024);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  const std::vector<plan::ResultPlace> results = {{0, 256, 512}, {1, 768, 256}};
  std::byte *first = nullptr, *second = nullptr, *other = nullptr;
  auto place = [](const c10::DataPtr &data) {
    return static_cast<std::byte *>(data.get()) - kPoolTagBytes;
  };
  uint64_t asked = runFunction(pool, reserved,
                               {[&] {
                                  take(64);
                                  first = place(take(448));
                                },
                                [&] {
                                  c10::DataPtr result = take(192);
                                  c10::DataPtr same = take(192);
                                  second = place(result);
                                  other = place(same);
                                }},
                               results);
  EXPECT_EQ(asked, 2u);
  EXPECT_EQ(first, arena.base() + 256);
  EXPECT_EQ(second, arena.base() + 768);
  EXPECT_NE(other, second);
  EXPECT_EQ(pool.systemBytes(), 256u); // of what was not planned
}

TEST(PoolTest, APlannedPlaceInUseIsNotGivenAgain) {
  TestArena arena(/*reserved=*/256, /*bytes=*/1024);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  const std::vector<plan::ResultPlace> results = {{0, 768, 256}, {1, 832, 128}};
  c10::DataPtr kept;
  auto keep = [&] { kept = take(192); };
  auto allocate = [&] {
    take(64);
    kept.clear();
  };
  EXPECT_EQ(runFunction(pool, reserved, {keep, allocate}, results), 1u);
}

TEST(PoolTest, AResultThatIsKeptTooLongIsAnErrorInTheRecordedStep) {
  TestArena arena(/*reserved=*/256, /*bytes=*/768);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  const std::vector<plan::ResultPlace> results = {{0, 256, 128}};
  pool.beginStep();
  ResultPool::Scope scope(pool);
  pool.beginFunction(reserved, results);
  pool.reach(0);
  c10::DataPtr kept = take(64);
  expectError([&] { pool.reach(1); },
              "a result of an operator is still in use, and its place is due");
}

TEST(PoolTest, LateFreeIsAnErrorBeforeABufferComes) {
  for (bool isMismatch : {false, true}) {
    TestArena arena(/*reserved=*/256, /*bytes=*/768);
    ResultPool pool(arena, routeCpuAllocations());
    Reservations reserved = makeReserved();
    c10::DataPtr kept;
    runFunction(pool, reserved, {[&] { take(64); }});
    pool.beginStep();
    ResultPool::Scope scope(pool);
    pool.beginFunction(reserved);
    pool.reach(0);
    kept = take(64);
    if (isMismatch)
      take(100);
    expectError([&] { pool.reach(1); },
                "allocation 0 of this step is still in use, and its place is "
                "due for a buffer");
  }
}

/// An allocation that comes when a buffer is reserved finds no place that was
/// planned for when it was not.
TEST(PoolTest, AnotherMomentIsAMismatch) {
  TestArena arena(/*reserved=*/256, /*bytes=*/768);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  auto allocate = [&] { take(64); };
  auto nothing = [] {};
  runFunction(pool, reserved, {allocate, nothing});
  EXPECT_EQ(runFunction(pool, reserved, {nothing, allocate}), 1u);
  EXPECT_EQ(runFunction(pool, reserved, {nothing, allocate}), 1u);
  EXPECT_EQ(runFunction(pool, reserved, {nothing, allocate}), 0u);
}

/// As cuBLAS does with its workspace: the first product takes it for good.
TEST(PoolTest, WhatIsTakenOnceDisturbsNoLaterStep) {
  TestArena arena(/*reserved=*/256, /*bytes=*/4096);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  c10::DataPtr workspace;
  std::vector<void *> places;
  auto product = [&] {
    if (!workspace)
      workspace = take(1000);
    places.push_back(take(100).get());
  };
  EXPECT_EQ(runFunction(pool, reserved, {product, product}), 3u);
  places.clear();
  EXPECT_EQ(runFunction(pool, reserved, {product, product}), 0u);
  EXPECT_EQ(runFunction(pool, reserved, {product, product}), 0u);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[3]);
}

/// One that needs more than in the recorded step has only that from the system.
TEST(PoolTest, LaterOperationsGetTheirPlacesAfterAMismatch) {
  TestArena arena(/*reserved=*/256, /*bytes=*/4096);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  auto needs = [](std::vector<size_t> sizes) {
    return [=] {
      for (size_t bytes : sizes)
        take(bytes);
    };
  };
  auto last = needs({300, 50});
  EXPECT_EQ(runFunction(pool, reserved, {needs({100, 200}), last}), 4u);
  EXPECT_EQ(runFunction(pool, reserved, {needs({100, 77, 200}), last}), 1u);
  EXPECT_EQ(runFunction(pool, reserved, {needs({100, 77, 200}), last}), 5u);
  EXPECT_EQ(runFunction(pool, reserved, {needs({100, 77, 200}), last}), 0u);
  EXPECT_EQ(runFunction(pool, reserved, {needs({200}), last}), 0u);
}

/// As masked_scatter does: scratch memory as large as the result, which an
/// empty mask does without. The result is then where the scratch memory was.
struct ScratchOrNot {
  explicit ScratchOrNot(TestArena &arena) : pool(arena, routeCpuAllocations()) {
    arena.know(result);
  }
  void operator()(bool hasScratch) {
    if (hasScratch)
      take(200).clear();
    result = take(200);
    std::memset(result.get(), 7, 200);
  }
  bool isIntact() const {
    auto *bytes = static_cast<const unsigned char *>(result.get());
    return std::count(bytes, bytes + 200, 7) == 200;
  }

  ResultPool pool;
  c10::DataPtr result;
};

TEST(PoolTest, NothingElseIsWhereALateAllocationIs) {
  TestArena arena(/*reserved=*/0, /*bytes=*/4096);
  ScratchOrNot scatter(arena);
  Reservations none;
  auto run = [&](bool hasScratch) {
    return runFunction(scatter.pool, none,
                       {[&] { scatter(hasScratch); },
                        [] { std::memset(take(300).get(), 1, 300); },
                        [&] {
                          EXPECT_TRUE(scatter.isIntact());
                          scatter.result.clear();
                        }});
  };
  EXPECT_EQ(run(true), 3u);
  EXPECT_EQ(run(true), 0u);
  // The allocation of the second operation, whose place is taken.
  EXPECT_EQ(run(false), 1u);
  EXPECT_EQ(scatter.pool.systemBytes(), 300 + kPoolTagBytes);
  EXPECT_EQ(run(true), 3u); // it is recorded again
  EXPECT_EQ(run(true), 0u);
}

TEST(PoolTest, ALateAllocationIsMovedOutOfTheWayOfABuffer) {
  for (bool isOther : {false, true}) {
    TestArena arena(/*reserved=*/256, /*bytes=*/4096);
    c10::DataPtr kept;
    arena.know(kept);
    ResultPool pool(arena, routeCpuAllocations());
    Reservations reserved = makeReserved();
    auto scratch = [] { take(64); };
    auto keep = [&] {
      if (isOther)
        take(100); // which the recorded step has not
      kept = take(64);
      std::memset(kept.get(), 7, 64);
    };
    auto look = [&] {
      std::memset(arena.base() + 256, 1, 512); // the buffer is written
      EXPECT_EQ(static_cast<char *>(kept.get())[63], 7);
      kept.clear();
    };
    runFunction(pool, reserved, {scratch, [] {}});
    EXPECT_EQ(runFunction(pool, reserved, {keep, look}), isOther ? 2u : 1u);
  }
}

TEST(PoolTest, OperationsThatDifferEachTimeAreNotRecordedForEver) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  size_t bytes = 100;
  auto grow = [&] {
    take(bytes += 100);
    take(50);
  };
  for (size_t i = 0; i < 2 * ResultPool::kMostRecordings; ++i)
    step(pool, grow);
  EXPECT_EQ(pool.numRecordings(), ResultPool::kMostRecordings);
  // Only what differs comes from the system.
  EXPECT_EQ(step(pool, grow), 1u);
  EXPECT_EQ(step(pool, grow), 1u);
}

TEST(PoolTest, KnowsWhetherAllocationsAreThoseOfTheRecordedStep) {
  TestArena arena(/*reserved=*/0, /*bytes=*/8192);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations none;
  c10::DataPtr forGood;
  bool takesForGood = true, isExact = false;
  std::vector<size_t> sizes = {100, 200, 100};
  auto allocate = [&] {
    if (takesForGood)
      forGood = take(1000);
    for (size_t bytes : sizes)
      take(bytes);
  };
  auto run = [&] {
    runFunction(pool, none, {allocate, [&] { isExact = pool.isExact(); }});
    return isExact;
  };
  run();
  takesForGood = false;
  EXPECT_TRUE(run()); // what is kept for good is left out
  sizes = {100, 100};
  EXPECT_TRUE(run()); // it is known which one is left out
  sizes = {200, 100};
  EXPECT_FALSE(run()); // which of the two is this?
  sizes = {100, 200, 100};
  EXPECT_TRUE(run());
  sizes = {100, 200, 300, 100};
  EXPECT_FALSE(run());
}

/// If operations run in another order, the recorded places belong to other
/// moments, so none is used.
TEST(PoolTest, OtherOperationsGetNoPlaces) {
  TestArena arena(/*reserved=*/256, /*bytes=*/4096);
  ResultPool pool(arena, routeCpuAllocations());
  Reservations first = makeReserved(), second = makeReserved();
  auto both = [&](const Reservations &a, const Reservations &b) {
    return step(pool, [&] {
      for (const Reservations *function : {&a, &b}) {
        pool.beginFunction(*function);
        pool.reach(0);
        take(64);
        pool.endFunction();
      }
    });
  };
  EXPECT_EQ(both(first, second), 2u);
  EXPECT_EQ(both(first, second), 0u);
  EXPECT_EQ(both(second, first), 2u);
}

TEST(PoolTest, SkippedAllocationsKeepTheirPlaces) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  std::vector<const void *> places;
  auto body = [&] {
    EXPECT_EQ(pool.isReplaying(), !places.empty());
    for (size_t bytes : {100, 200, 300})
      places.push_back(take(bytes).get());
  };
  step(pool, body);
  EXPECT_FALSE(pool.isReplaying());
  places.clear();
  uint64_t asked = step(pool, [&] {
    c10::DataPtr first = take(100);
    EXPECT_EQ(pool.numPlaced(), 1u);
    // The tag is before the address that libtorch gets.
    EXPECT_EQ(pool.place(0) + kPoolTagBytes, first.get());
    first.clear();
    const std::byte *second = pool.nextPlace(0), *third = pool.nextPlace(1);
    EXPECT_NE(second, nullptr);
    EXPECT_EQ(pool.nextPlace(2), nullptr);
    pool.skip(1);
    EXPECT_EQ(pool.place(1), second);
    EXPECT_EQ(static_cast<std::byte *>(take(300).get()), third + kPoolTagBytes);
    EXPECT_TRUE(pool.isReplaying());
  });
  EXPECT_EQ(asked, 0u);
}

TEST(PoolTest, DoesntSkipWhatIsStillInUse) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  auto body = [] {
    take(100).clear();
    take(200).clear();
  };
  step(pool, body);
  step(pool, [&] {
    c10::DataPtr kept = take(100);
    EXPECT_THROW(pool.skip(1), c10::Error);
  });
}

TEST(PoolTest, PlacesAreThoseOfAStepLikeTheRecordedOne) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  Reservations reserved = makeReserved();
  runFunction(pool, reserved, {[] { take(100); }});
  pool.beginStep();
  EXPECT_TRUE(pool.isReplaying());
  pool.beginFunction(reserved);
  pool.reach(0);
  EXPECT_NE(pool.nextPlace(0), nullptr);
  pool.reach(2); // the recorded step had only one operation
  EXPECT_FALSE(pool.isReplaying());
  EXPECT_EQ(pool.numPlaced(), 0u);
  EXPECT_EQ(pool.nextPlace(0), nullptr);
}

TEST(PoolTest, OtherThreadsUseTheSystem) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  auto body = [] {
    c10::DataPtr own = take(64);
    std::thread([] { take(1 << 20); }).join();
  };
  EXPECT_EQ(step(pool, body), 1u);
  EXPECT_EQ(step(pool, body), 0u);
  EXPECT_EQ(pool.regionBytes(), 64u + kPoolTagBytes);
}

TEST(PoolTest, MayBeFreedByAnotherThread) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
  auto body = [] {
    c10::DataPtr own = take(64);
    std::thread([data = std::move(own)]() mutable { data.clear(); }).join();
    take(64);
  };
  step(pool, body);
  EXPECT_EQ(step(pool, body), 0u);
}

TEST(PoolTest, MathsLibrariesFreeByPointer) {
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
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
  TestArena arena;
  ResultPool pool(arena, routeCpuAllocations());
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
    StepEvents events;
    size_t live = 0;
    for (uint32_t i = 0; i < 200; ++i) {
      size_t bytes = 1 + random() % 5000;
      events.lifetimes.push_back(
          {bytes, i, static_cast<uint32_t>(i + 1 + random() % 30)});
      live += bytes;
    }
    Placement placement = placeLifetimes(events);
    expectDisjoint(events.lifetimes, placement);
    EXPECT_LT(placement.regionBytes, live);
    for (size_t offset : placement.offsets)
      EXPECT_EQ(offset % kPoolAlignment, 0u);
  }
}

TEST(LifetimePlanTest, ChainNeedsTwoPlaces) {
  StepEvents chain;
  for (uint32_t i = 0; i < 100; ++i)
    chain.lifetimes.push_back({640, i, i + 2});
  EXPECT_EQ(placeLifetimes(chain).regionBytes, 1280u);
}

} // namespace
