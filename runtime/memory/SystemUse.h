// SPDX-License-Identifier: Apache-2.0
//
// Counts the memory that a pool has from the system.
#pragma once

#include <c10/core/Allocator.h>
#include <cstddef>
#include <memory>
#include <mutex>

namespace fcdp {

/// Counts allocations from the system. One thread calls it, but any thread may
/// free memory, also after the pool is gone.
class SystemUse : public std::enable_shared_from_this<SystemUse> {
public:
  /// Restarts the peak for a new step.
  void beginStep();
  /// Allocates memory from `system`, which is counted until it is freed.
  c10::DataPtr allocate(c10::Allocator &system, size_t bytes);
  /// Returns the greatest number of bytes in use at once in this step.
  size_t peakBytes() const;

private:
  struct Block {
    std::shared_ptr<SystemUse> owner;
    c10::DataPtr memory;
    size_t bytes;
  };
  static void release(void *block);

  mutable std::mutex mutex;
  size_t live = 0, peak = 0;
};

} // namespace fcdp
