// SPDX-License-Identifier: Apache-2.0
//
// Hands out planned places of one region, in the recorded order.
#pragma once

#include "step/LifetimePlan.h"

#include <atomic>
#include <c10/core/Allocator.h>
#include <memory>

namespace fcdp {

/// `begin` and `allocate` are called by one thread; memory may be freed by any
/// thread. Lives until it is retired and the last of its memory is freed.
class PoolReplay {
public:
  /// Throws std::runtime_error if the region cannot be had.
  explicit PoolReplay(std::vector<Lifetime> lifetimes);
  PoolReplay(const PoolReplay &) = delete;
  PoolReplay &operator=(const PoolReplay &) = delete;
  /// Gives up the owner's share; the object must not be used after it.
  void retire() { releaseShare(); }

  /// Starts a step. False if memory of an earlier step is still in use.
  bool begin();
  struct Result {
    enum class Kind { Placed, Mismatch, Outlives } kind;
    c10::DataPtr memory;
  };
  /// The next allocation of the step: its place; or `Mismatch` if the recorded
  /// step made none of this size here; or `Outlives` if it needs memory of its
  /// own. Throws c10::Error if the place is still in use.
  Result allocate(size_t bytes);

  size_t regionBytes() const { return bytes; }

private:
  struct Block {
    PoolReplay *owner;
    std::byte *data;
    std::atomic<bool> inUse{false};
  };
  struct Unmap {
    size_t bytes;
    void operator()(std::byte *region) const;
  };

  ~PoolReplay() = default;
  static void release(void *block);
  void releaseShare();
  /// Throws if an allocation that the recorded step had freed by now lives.
  void checkFreed();

  const std::vector<Lifetime> lifetimes;
  size_t bytes;
  std::unique_ptr<std::byte, Unmap> region;
  std::unique_ptr<Block[]> blocks;
  /// Indices of the planned allocations in the order of their ends.
  std::vector<uint32_t> byEnd;
  size_t nextEnd = 0;
  uint32_t nextBlock = 0;
  /// The owner's share and one per allocation in use.
  std::atomic<int64_t> shares{1};
};

} // namespace fcdp
