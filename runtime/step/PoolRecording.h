// SPDX-License-Identifier: Apache-2.0
//
// The allocations of one step, and what is held beside them, written down as
// they happen.
#pragma once

#include "step/HeldMemory.h"
#include "step/LifetimePlan.h"

#include <c10/core/Allocator.h>
#include <map>
#include <memory>
#include <mutex>

namespace fcdp {

/// Called by one thread, but memory may be freed by any.
class PoolRecording : public std::enable_shared_from_this<PoolRecording> {
public:
  /// Memory from `system` whose end of life will be written down.
  c10::DataPtr allocate(c10::Allocator &system, size_t bytes);

  /// Notes that ranges of `held` end and begin.
  void reach(const HeldMemory &held, const HeldMoment &moment);

  StepEvents events() const;
  /// The greatest number of bytes in use at once.
  size_t peakBytes() const;

private:
  struct Block {
    std::shared_ptr<PoolRecording> owner;
    uint32_t index;
    c10::DataPtr memory;
  };
  static void release(void *block);

  mutable std::mutex mutex;
  StepEvents noted;
  /// Events so far.
  uint32_t now = 0;
  /// By range, the obstacle that it is now.
  std::map<uint32_t, size_t> open;
  size_t live = 0, peak = 0;
};

} // namespace fcdp
