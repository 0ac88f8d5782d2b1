// SPDX-License-Identifier: Apache-2.0
//
// Allocates the results of ATen operators.
//
// A training step makes the same allocations each time. So the first step is
// recorded (each allocation's size and when it was freed), places are planned
// from that, and later steps replay them: allocation i of a step gets its
// planned place at once, without an allocation from the system. The places are
// in the device arena, in bytes that the plan does not reserve at that time,
// and after its end. In the recorded step, results are at the places that the
// compiler has planned. Memory that operators allocate for themselves, which
// the compiler does not know, comes from the system.
#pragma once

#include "memory/LifetimePlan.h"
#include "plan/Reservations.h"

#include <c10/core/Allocator.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace fcdp {

class PoolRecording;
class PoolReplay;
class SystemUse;

/// The size of the tag before each allocation, which records how to free it. It
/// keeps the allocation aligned.
inline constexpr size_t kPoolTagBytes = packing::kPoolTagBytes;

/// The device arena that a pool uses.
struct PoolArena {
  std::byte *base = nullptr;
  uint64_t bytes = 0;
  /// Bytes at the beginning of the arena that the pool never uses; a multiple
  /// of kPoolAlignment.
  uint64_t reserved = 0;
  /// Extends the device arena to cover bytes [from, to), or throws
  /// std::runtime_error. The memory need not follow the arena.
  std::function<std::shared_ptr<std::byte>(uint64_t from, uint64_t to)> extend =
      {};
  using Allocate = std::function<c10::DataPtr(size_t bytes)>;
  /// Moves the tensors in these bytes to other memory, if it knows them. It
  /// waits for the device, because the bytes may be used at once. Null if no
  /// tensors are known.
  std::function<void(std::span<const std::byte> bytes, const Allocate &)>
      moveOut = {};
  c10::Device device = c10::kCPU;
};

/// A pool of memory for operator results. It is used only by the thread that
/// has a Scope. Any thread may free memory, also after the pool is destroyed,
/// but not after the arena is. All other functions are for one thread.
///
/// The allocations of an operator may depend on values. If the recorded step
/// did not allocate the same size in the same operation, the allocation comes
/// from the system, and the next step is recorded again, up to kMostRecordings
/// times in all. Allocations that only the recorded step made, such as memory
/// that a library allocates once and keeps, are skipped. From the first
/// operation that differs from the recorded step on, all allocations come from
/// the system. An allocation that is in use for longer than in the recorded
/// step keeps its place, and the allocations that were planned there come from
/// the system. If a buffer of the plan is due there, the allocation is moved.
/// It is an error if that is impossible because no tensor of the step uses it.
///
/// Memory is freed when no tensor on the host refers to it. On a GPU, queued
/// operators may still use it; they run before the next users, because all run
/// on one stream.
class ResultPool {
public:
  /// `system` must outlive all memory that comes from the pool.
  ResultPool(PoolArena arena, c10::Allocator &system);
  ~ResultPool();
  ResultPool(const ResultPool &) = delete;
  ResultPool &operator=(const ResultPool &) = delete;

  /// Throws std::runtime_error if memory of the step before is still in use.
  void beginStep();
  /// Throws std::runtime_error if the arena cannot be extended to the size that
  /// the recorded step needs.
  void endStep();

  /// Called around each function, with the memory that is reserved while it
  /// runs and the planned places of its results by operation. Both must live
  /// until the next call.
  void beginFunction(const Reservations &reserved,
                     std::span<const plan::ResultPlace> results = {});
  /// Called before operation `op` of the function, in order. Like endFunction,
  /// it throws std::runtime_error.
  void reach(size_t op);
  void endFunction();

  /// Makes the pool the thread's active one while it lives. libtorch's
  /// allocators use the active pool (CpuPool.h).
  class Scope {
  public:
    explicit Scope(ResultPool &pool);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    ResultPool *outer;
  };

  /// While it lives, allocations of the thread's active pool, if any, come from
  /// the system and are not compared with those of the recorded step. It is for
  /// operators that only some steps run.
  class Apart {
  public:
    Apart();
    ~Apart();
    Apart(const Apart &) = delete;
    Apart &operator=(const Apart &) = delete;

  private:
    ResultPool *const pool;
  };

  /// The most steps that are recorded. Each recording changes the places, and
  /// thus the graphs of the operations.
  static constexpr size_t kMostRecordings = 4;
  size_t numRecordings() const { return recordings; }

  /// Returns whether allocations get planned places, because this step has so
  /// far run the operations of the recorded one.
  bool isReplaying() const;
  /// Returns the number of the step's allocations that are made or skipped.
  size_t numPlaced() const;
  /// Returns the place of allocation `index` of the step, or null if it has
  /// none.
  const std::byte *place(size_t index) const;
  const std::byte *nextPlace(size_t index) const {
    return place(numPlaced() + index);
  }
  /// Skips the next `count` allocations. The caller uses their places as if
  /// they had been made, and freed as in the recorded step. Throws c10::Error
  /// like `allocate`.
  void skip(size_t count);

  /// Records that the current operation has ended. Otherwise `reach` of the
  /// next operation records it.
  void endOperation();
  /// Returns whether `isReplaying` holds, all allocations of operations that
  /// have ended are those of the recorded step, and all of them are freed in
  /// time.
  bool isExact();

  /// Returns the calling thread's active pool, or null.
  static ResultPool *active();
  c10::Device device() const { return arena.device; }

  /// Returns the number of allocations from the system since the pool was made.
  uint64_t systemAllocations() const { return systemCount; }
  /// Returns the bytes of the arena that the pool and reserved memory need; 0
  /// before a step was recorded.
  size_t regionBytes() const;
  /// Returns the peak of the bytes that the last step allocated from the
  /// system.
  size_t systemBytes() const;

  /// Allocates memory, for libtorch's allocator. Throws c10::Error.
  c10::DataPtr allocate(size_t bytes);

private:
  c10::DataPtr fromSystem(size_t bytes);
  void moveOut(const std::vector<uint32_t> &allocations);
  void apply(const ReservationChange &change);
  void plan();

  const PoolArena arena;
  c10::Allocator &system;
  enum class Mode { Idle, Recording, Replaying };
  Mode mode = Mode::Idle;
  size_t numApart = 0;
  const Reservations *reserved = nullptr;
  size_t nextChange = 0;
  std::shared_ptr<PoolRecording> recording;
  PoolReplay *replay = nullptr;
  bool replayIsStale = false;
  size_t recordings = 0;
  uint64_t systemCount = 0;
  const std::shared_ptr<SystemUse> systemUse;
};

} // namespace fcdp
