// SPDX-License-Identifier: Apache-2.0
//
// Allocates planned places of the device arena in the recorded order.
//
// The allocations of an operator may depend on values, so a step may free some
// memory later than the recorded one did. Such an allocation is late. Nothing
// else gets its place until it is freed.
#pragma once

#include "memory/LifetimePlan.h"
#include "plan/Reservations.h"

#include <atomic>
#include <c10/core/Allocator.h>
#include <memory>
#include <span>
#include <vector>

namespace fcdp {

/// The device arena of `bytes` bytes and its extension. `behind` has the bytes
/// from `behindFrom` on, for allocations that end after `bytes`.
struct PoolMemory {
  std::byte *base;
  uint64_t bytes;
  uint64_t behindFrom;
  std::shared_ptr<std::byte> behind;
};

/// Replays the allocations of a recorded step. One thread calls it, but any
/// thread may free memory. It lives until it is retired and the last of its
/// memory is freed.
class PoolReplay {
public:
  PoolReplay(StepEvents events, Placement placement, PoolMemory memory,
             c10::Device device);
  PoolReplay(const PoolReplay &) = delete;
  PoolReplay &operator=(const PoolReplay &) = delete;
  /// Releases the owner's share. The object must not be used afterwards.
  void retire() { releaseShare(); }

  /// Starts a step. Throws std::runtime_error if memory of an earlier step is
  /// still in use.
  void begin();
  /// Announces that an operation is about to run. Skips the allocations that
  /// the recorded step made in the operation before, and this step has not.
  void reach(const void *function, size_t op);
  struct Result {
    enum class Kind { Placed, Mismatch, Outlives } kind;
    c10::DataPtr memory;
  };
  /// Ends and begins reservations as in the recorded step. Returns the
  /// allocations that are still in use in memory that becomes reserved; the
  /// caller must move them.
  std::vector<uint32_t> reach(const Reservations &reserved,
                              const ReservationChange &change);
  /// Returns the place of the next allocation of that size that the recorded
  /// step made in this operation. Returns `Mismatch` if there is none or a late
  /// allocation is at its place, and `Outlives` if the allocation needs memory
  /// of its own.
  Result allocate(size_t bytes);

  /// Returns whether the step has so far run the operations of the recorded
  /// step, the number of its allocations that are made or skipped, and the
  /// place of allocation `index`, or null if it has none.
  bool isLikeRecorded() const { return isAsRecorded; }
  size_t numPlaced() const { return nextBlock; }
  const std::byte *place(size_t index) const {
    return index < lifetimes.size() ? blocks[index].data : nullptr;
  }
  /// Continues as if the next allocation had been made, and is freed in time.
  /// Throws c10::Error if a late allocation is at its place.
  void skip();

  /// Returns the memory of an allocation, which must have a place.
  std::span<const std::byte> bytesOf(uint32_t index) const {
    return {blocks[index].data, lifetimes[index].bytes};
  }
  bool isInUse(uint32_t index) const {
    return blocks[index].inUse.load(std::memory_order_acquire);
  }
  /// Returns whether an allocation is late.
  bool hasLate();
  /// Records that the current operation has ended. Otherwise `reach` of the
  /// next operation records it.
  void endOperation();
  /// Returns whether every allocation of operations that have ended is
  /// certainly the recorded one whose place it has, and none is late. It is not
  /// certain if an operation left out an allocation that has the size of
  /// another one.
  bool isLikeRecordedOnes() { return isExact && !hasLate(); }

  size_t regionBytes() const { return placement.regionBytes; }

private:
  struct Block {
    PoolReplay *owner = nullptr;
    std::byte *data = nullptr;
    std::atomic<bool> inUse{false};
    /// The last step that made the allocation, or skipped it.
    uint64_t madeIn = 0;
  };
  ~PoolReplay() = default;
  static void release(void *block);
  void releaseShare();
  /// Returns the index of the first allocation of an operation.
  size_t firstOf(size_t operation) const;
  /// Advances to an event of the recorded step, and marks allocations as late.
  void goTo(uint32_t event);
  /// Begins an operation with the allocations [first, end).
  void beginOperation(size_t first, size_t end);
  void judgeOperation();
  /// Returns whether this operation has left out the allocation, and an
  /// allocation that was made may be that one.
  bool isAmbiguous(size_t leftOut) const;
  void use(size_t index);
  /// Returns whether the allocation shares memory with `range`.
  bool isIn(uint32_t index, const plan::ReservedRange &range) const;
  /// Returns whether a late allocation shares memory with allocation `index`.
  bool isTaken(size_t index);
  /// Adds the allocations that are in use in `range`.
  void addUsersOf(const plan::ReservedRange &range,
                  std::vector<uint32_t> &users);

  const StepEvents recorded;
  const std::vector<Lifetime> &lifetimes = recorded.lifetimes;
  const Placement placement;
  const PoolMemory memory;
  const c10::Device device;
  std::unique_ptr<Block[]> blocks;
  /// Indices of the planned allocations in the order of their ends.
  std::vector<uint32_t> byEnd;
  size_t nextEnd = 0;
  size_t nextBlock = 0;
  /// The allocations of this operation, and the number of them that are made.
  size_t firstBlock = 0, blocksEnd = 0, numMade = 0;
  uint64_t step = 0;
  size_t nextOperation = 0, nextChange = 0;
  /// The late allocations, and some that have been freed since. It has room for
  /// all.
  std::vector<uint32_t> late;
  bool isAsRecorded = true, isExact = true;
  /// The owner's share and one per allocation in use.
  std::atomic<int64_t> shares{1};
};

} // namespace fcdp
