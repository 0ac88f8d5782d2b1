// SPDX-License-Identifier: Apache-2.0
//
// Hands out planned places of the device arena, in the recorded order.
#pragma once

#include "memory/LifetimePlan.h"
#include "plan/Reservations.h"

#include <atomic>
#include <c10/core/Allocator.h>
#include <memory>
#include <optional>

namespace fcdp {

/// The device arena of `bytes` bytes and its extension. `behind` has the bytes
/// from `behindFrom` on, for allocations that end after `bytes`.
struct PoolMemory {
  std::byte *base;
  uint64_t bytes;
  uint64_t behindFrom;
  std::shared_ptr<std::byte> behind;
};

/// Called by one thread, but memory may be freed by any. Lives until it is
/// retired and the last of its memory is freed.
class PoolReplay {
public:
  PoolReplay(StepEvents events, Placement placement, PoolMemory memory,
             c10::Device device);
  PoolReplay(const PoolReplay &) = delete;
  PoolReplay &operator=(const PoolReplay &) = delete;
  /// Gives up the owner's share; the object must not be used after it.
  void retire() { releaseShare(); }

  /// Starts a step. Throws std::runtime_error if memory of an earlier step is
  /// still in use.
  void begin();
  /// An operation is about to run. Skips what the recorded step allocated in
  /// the operation before and this step has not.
  void reach(const void *function, size_t op);
  struct Result {
    enum class Kind { Placed, Mismatch, Outlives } kind;
    c10::DataPtr memory;
  };
  /// Ends and begins reservations as in the recorded step. Throws
  /// std::runtime_error if an allocation in memory that is then reserved is
  /// still in use.
  void reach(const Reservations &reserved, const ReservationChange &change);
  /// Returns the place of the next allocation of that size that the recorded
  /// step made in this operation; or `Mismatch` if there is none; or `Outlives`
  /// if it needs memory of its own. Throws c10::Error if the place is still in
  /// use.
  Result allocate(size_t bytes);

  /// Returns whether the step has run the recorded step's operations so far,
  /// how many of its allocations are made or skipped, and where allocation
  /// `index` is; null if that has no place.
  bool isLikeRecorded() const { return isAsRecorded; }
  size_t numPlaced() const { return nextBlock; }
  const std::byte *place(size_t index) const {
    return index < lifetimes.size() ? blocks[index].data : nullptr;
  }
  /// Goes on as if the next allocation had been made, and is freed in time.
  /// Throws c10::Error if its place is still in use.
  void skip();

  size_t regionBytes() const { return placement.regionBytes; }

private:
  struct Block {
    PoolReplay *owner = nullptr;
    std::byte *data = nullptr;
    std::atomic<bool> inUse{false};
  };
  ~PoolReplay() = default;
  static void release(void *block);
  void releaseShare();
  /// Returns the index of the first allocation of an operation.
  size_t firstOf(size_t operation) const;
  /// Goes on to an event of the recorded step. Throws c10::Error if the place
  /// of an allocation that the recorded step had freed by then is still in use.
  void goTo(uint32_t event);
  /// The first allocation that the recorded step had freed by now and that is
  /// in use, or none.
  std::optional<uint32_t> findLate();
  /// Returns the same for allocations in `range`, whatever the recorded step
  /// did.
  std::optional<uint32_t> findIn(const plan::ReservedRange &range) const;

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
  /// Index behind the last allocation of this operation.
  size_t blocksEnd = 0;
  size_t nextOperation = 0, nextChange = 0;
  /// The event of the recorded step that this step has come to, while it runs
  /// the same operations.
  uint32_t now = 0;
  bool isAsRecorded = true;
  /// The owner's share and one per allocation in use.
  std::atomic<int64_t> shares{1};
};

} // namespace fcdp
