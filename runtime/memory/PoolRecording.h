// SPDX-License-Identifier: Apache-2.0
//
// Records the allocations of one step, and the memory that was reserved besides
// them.
#pragma once

#include "memory/LifetimePlan.h"
#include "memory/PlannedResults.h"
#include "plan/Reservations.h"

#include <c10/core/Allocator.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace fcdp {

/// The recording of one step. One thread calls it, but any thread may free
/// memory.
class PoolRecording : public std::enable_shared_from_this<PoolRecording> {
public:
  /// `base` is the beginning of the device arena.
  PoolRecording(std::byte *base, c10::Device device)
      : base(base), device(device) {}

  void beginFunction(std::span<const plan::ResultPlace> results);
  /// Announces that operation `op` of a function is about to run.
  void reach(const void *function, size_t op);
  /// Records that ranges of `reserved` end and begin. Throws std::runtime_error
  /// if an allocation is still in a range that begins.
  void reach(const Reservations &reserved, const ReservationChange &change);

  /// Returns memory at its planned place, or from `system`, and records when it
  /// is freed.
  c10::DataPtr allocate(const std::function<c10::DataPtr(size_t)> &system,
                        size_t bytes);

  StepEvents events() const;

private:
  struct Block {
    std::shared_ptr<PoolRecording> owner;
    uint32_t index;
    /// Only one of the two is set.
    c10::DataPtr memory;
    std::optional<uint64_t> place;
  };
  static void release(void *block);

  std::byte *const base;
  const c10::Device device;
  mutable std::mutex mutex;
  PlannedResults planned;
  StepEvents recorded;
  /// The number of events so far.
  uint32_t now = 0;
  /// By range, the index of its current obstacle.
  std::map<uint32_t, size_t> open;
};

} // namespace fcdp
