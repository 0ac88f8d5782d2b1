// SPDX-License-Identifier: Apache-2.0
//
// The host cache on a machine with GPUs: the node's shared segment, locked in
// memory and registered with the device, so that copies run asynchronously.
#pragma once

#include "cpu/HostSegment.h"
#include "cuda/CudaLibrary.h"

namespace fcdp {

struct HostCacheOptions {
  /// The node's segment. `bytes` is the plan's size; the segment is rounded up
  /// to whole pages. `place` is not used.
  HostSegmentOptions segment;
  /// Returns when all local ranks have called it, or throws. It is not called
  /// if there are no bytes. If it is null, no rank waits for others.
  std::function<void()> meet = nullptr;
  /// The number of this rank's device in this process.
  int device = 0;
};

/// Host memory of a node, in which the device can access this rank's part. The
/// whole pages of the part are locked, and come from the NUMA node of the
/// rank's device if the system reports it. No rank locks pages before all have
/// placed theirs, because locked pages do not move. Move-only; construction and
/// destruction are not thread-safe, and access to the memory is not
/// synchronized.
class CudaHostCache {
public:
  /// Makes an empty cache.
  CudaHostCache() = default;
  /// Allocates the cache. All local ranks call it. Throws std::runtime_error,
  /// and then leaves nothing allocated.
  CudaHostCache(std::shared_ptr<const CudaLibrary> cuda,
                const HostCacheOptions &options);
  CudaHostCache(CudaHostCache &&other) noexcept { *this = std::move(other); }
  CudaHostCache &operator=(CudaHostCache &&other) noexcept;
  ~CudaHostCache();

  /// Returns null if the size is 0.
  std::byte *base() const { return segment.base(); }
  /// Returns the bytes that the plan needs.
  uint64_t size() const { return bytes; }
  /// Returns the bytes of the whole pages that this rank has locked.
  uint64_t lockedBytes() const { return segment.pages().size(); }

  bool contains(const void *address) const {
    auto *byte = static_cast<const std::byte *>(address);
    return base() && byte >= base() && byte < base() + segment.size();
  }

private:
  std::shared_ptr<const CudaLibrary> cuda;
  HostSegment segment;
  uint64_t bytes = 0;
};

} // namespace fcdp
