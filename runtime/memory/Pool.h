// SPDX-License-Identifier: Apache-2.0
//
// The memory that results of ATen operators come from.
//
// A training step makes the same allocations each time. So the first step is
// recorded (each allocation's size and when it was freed), places are planned
// from that, and later steps replay: allocation i of a step gets its planned
// place at once, and the system is asked for nothing. The places are in the
// device arena, where and when the plan reserves nothing, and behind that.
// In the recorded step, results are where the compiler has planned them; what
// operators take for themselves, which it does not know of, comes from the
// system.
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

/// The size of the tag before each allocation, which says how to free it. It
/// keeps the allocation aligned.
inline constexpr size_t kPoolTagBytes = packing::kPoolTagBytes;

/// The device arena, as the pool sees it.
struct PoolArena {
  std::byte *base = nullptr;
  uint64_t bytes = 0;
  /// Bytes at the beginning of the arena that the pool never uses; a multiple
  /// of kPoolAlignment.
  uint64_t reserved = 0;
  /// Memory for bytes [from, to) of an arena that goes on, or throws
  /// std::runtime_error. It need not be where the arena ends.
  std::function<std::shared_ptr<std::byte>(uint64_t from, uint64_t to)> extend =
      {};
  using Allocate = std::function<c10::DataPtr(size_t bytes)>;
  /// Moves the tensors that have memory in these bytes, and that it knows, to
  /// other memory. It waits for the device, because the bytes may be used at
  /// once. Null if it knows none.
  std::function<void(std::span<const std::byte> bytes, const Allocate &)>
      moveOut = {};
  c10::Device device = c10::kCPU;
};

/// Serves the thread that has a Scope, and no other. Any thread may free
/// memory, also after the pool is destroyed, but not after the arena is. All
/// other functions are for one thread.
///
/// What an operator takes may depend on values. An allocation of a size that
/// the recorded step did not allocate in the same operation comes from the
/// system, and the next step is recorded again, as long as fewer than
/// kMostRecordings were. What the recorded step allocated and a later one does
/// not, such as memory that a library takes once and keeps, is skipped. In a
/// step of other operations than the recorded one's, all allocations come from
/// the system from there on. An allocation that is in use for longer than in
/// the recorded step keeps its place: what was planned there comes from the
/// system. If a buffer of the plan is due there, it is moved out; if it cannot
/// be, as no tensor of the step has it, that is an error.
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
  /// Throws std::runtime_error if the arena cannot be as long as the recorded
  /// step needs it.
  void endStep();

  /// Called around each function, with the memory that is reserved while it
  /// runs and the planned places of its results by operation. Both must live
  /// until the next call.
  void beginFunction(const Reservations &reserved,
                     std::span<const plan::ResultPlace> results = {});
  /// Called before operation `op` of the function, in order. Throws
  /// std::runtime_error, as does the end.
  void reach(size_t op);
  void endFunction();

  /// Makes the pool this thread's active one while it lives: libtorch's
  /// allocators ask that (CpuPool.h).
  class Scope {
  public:
    explicit Scope(ResultPool &pool);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    ResultPool *outer;
  };

  /// The places change with each, and so do graphs of the operations.
  static constexpr size_t kMostRecordings = 4;
  size_t numRecordings() const { return recordings; }

  /// Returns whether allocations get planned places: so far this step has run
  /// the operations of the recorded one. Below, that is what is told of: how
  /// many of its allocations are made or skipped, where allocation `index` of
  /// the step is, and where the next ones will be; null for what is not there.
  bool isReplaying() const;
  size_t numPlaced() const;
  const std::byte *place(size_t index) const;
  const std::byte *nextPlace(size_t index) const {
    return place(numPlaced() + index);
  }
  /// Skips the next `count` allocations. The caller uses their places as if
  /// they had been made, and freed as in the recorded step. Throws c10::Error
  /// like `allocate`.
  void skip(size_t count);

  /// Says that the operation that was reached has ended, which the next one
  /// says otherwise.
  void endOperation();
  /// Returns whether, in addition, all allocations of operations that have
  /// ended are those that the recorded step made there, and all are freed in
  /// time.
  bool isExact();

  /// The calling thread's, or null.
  static ResultPool *active();
  c10::Device device() const { return arena.device; }

  /// Allocations that the system was asked for since the pool was made.
  uint64_t systemAllocations() const { return systemCount; }
  /// Returns the bytes of the arena that the pool and reserved memory need; 0
  /// before a step was recorded.
  size_t regionBytes() const;
  /// Returns the peak of memory that the last step had from the system, in
  /// bytes.
  size_t systemBytes() const;

  /// For the allocator. Throws c10::Error.
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
