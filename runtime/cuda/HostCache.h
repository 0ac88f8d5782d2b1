// SPDX-License-Identifier: Apache-2.0
//
// The host cache on a machine with GPUs: the node's shared segment, locked in
// memory and known to the device, so that copies run beside the step.
#pragma once

#include "cpu/HostSegment.h"
#include "cuda/CudaLibrary.h"

namespace fcdp {

struct HostCacheOptions {
  /// `bytes` are those of the plan; the segment has them up to a whole page.
  HostSegmentOptions segment;
  /// The number of this rank's device, as this process sees it.
  int device = 0;
};

/// Memory of the host that the device reads and writes by itself. Locked are
/// the plan's bytes, rounded up to pages and no further. Each local rank's
/// share, an equal part of the segment, lies on the NUMA node of its device
/// where the system says which that is. Move-only; not thread-safe to make or
/// destroy, the memory itself is plain.
class HostCache {
public:
  /// An empty one.
  HostCache() = default;
  /// Called by all local ranks; throws std::runtime_error, and then leaves
  /// nothing behind.
  HostCache(std::shared_ptr<const CudaLibrary> cuda,
            const HostCacheOptions &options);
  HostCache(HostCache &&other) noexcept { *this = std::move(other); }
  HostCache &operator=(HostCache &&other) noexcept;
  ~HostCache();

  /// Null if the size is zero.
  std::byte *base() const { return segment.base(); }
  /// Bytes that the plan asked for.
  uint64_t size() const { return bytes; }
  /// Bytes that are locked: those of whole pages.
  uint64_t lockedBytes() const { return segment.size(); }

  bool contains(const void *address) const {
    auto *byte = static_cast<const std::byte *>(address);
    return base() && byte >= base() && byte < base() + lockedBytes();
  }

private:
  std::shared_ptr<const CudaLibrary> cuda;
  HostSegment segment;
  uint64_t bytes = 0;
};

} // namespace fcdp
