// SPDX-License-Identifier: Apache-2.0
//
// The host cache on a machine with GPUs: the node's shared segment, locked in
// memory and registered with the device, so that copies run asynchronously.
#pragma once

#include "cpu/HostSegment.h"
#include "cuda/CudaLibrary.h"

namespace fcdp {

struct HostCacheOptions {
  /// `bytes` are the plan's bytes; the segment is rounded up to whole pages.
  /// `place` is not used.
  HostSegmentOptions segment;
  /// Returns when all local ranks have called it, or throws. Not called if
  /// there are no bytes. Without it no rank waits for others.
  std::function<void()> meet = nullptr;
  /// Number of this rank's device as this process sees it.
  int device = 0;
};

/// Host memory of a node, of which the device can access this rank's part. The
/// whole pages of the part are locked, and come from the NUMA node of the
/// rank's device if the system says which that is. No rank locks pages before
/// all have placed theirs, because locked pages do not move. Move-only;
/// construction and destruction are not thread-safe, and access to the memory
/// is not synchronized.
class CudaHostCache {
public:
  /// Makes an empty cache.
  CudaHostCache() = default;
  /// All local ranks call it. Throws std::runtime_error, and then leaves
  /// nothing allocated.
  CudaHostCache(std::shared_ptr<const CudaLibrary> cuda,
                const HostCacheOptions &options);
  CudaHostCache(CudaHostCache &&other) noexcept { *this = std::move(other); }
  CudaHostCache &operator=(CudaHostCache &&other) noexcept;
  ~CudaHostCache();

  /// Returns null if the size is 0.
  std::byte *base() const { return segment.base(); }
  /// Returns the bytes that the plan asked for.
  uint64_t size() const { return bytes; }
  /// Returns the bytes that this rank has locked: those of whole pages.
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
