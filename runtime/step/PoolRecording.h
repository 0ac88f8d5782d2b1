// SPDX-License-Identifier: Apache-2.0
//
// The allocations of one step, written down as they happen.
#pragma once

#include "step/LifetimePlan.h"

#include <c10/core/Allocator.h>
#include <memory>
#include <mutex>

namespace fcdp {

/// `allocate` is called by one thread; memory may be freed by any thread.
class PoolRecording : public std::enable_shared_from_this<PoolRecording> {
public:
  /// Memory from `system` whose end of life will be written down.
  c10::DataPtr allocate(c10::Allocator &system, size_t bytes);

  std::vector<Lifetime> lifetimes() const;
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
  std::vector<Lifetime> blocks;
  size_t live = 0, peak = 0;
};

} // namespace fcdp
