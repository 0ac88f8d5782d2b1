// SPDX-License-Identifier: Apache-2.0
//
// The host cache: one memory segment per node that the node's ranks share.
#pragma once

#include "cpu/HostSegmentOptions.h"

#include <cstddef>

namespace fcdp {

/// A mapped host segment, initially zero. Local rank 0 reserves all of its
/// memory before any rank maps it, so that a lack of memory is an error here
/// and not a signal later. It has no name in any file system: the memory is
/// freed when the last rank ends, however it ends. Move-only; construction and
/// destruction are not thread-safe, and access to the memory is not
/// synchronized.
class HostSegment {
public:
  /// Makes an empty segment.
  HostSegment() = default;
  /// All local ranks call it with equal `bytes`. Throws std::runtime_error.
  explicit HostSegment(const HostSegmentOptions &options);
  HostSegment(HostSegment &&other) noexcept;
  HostSegment &operator=(HostSegment &&other) noexcept;
  ~HostSegment();

  /// Returns null if the size is 0.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }

private:
  std::byte *address = nullptr;
  uint64_t bytes = 0;
};

} // namespace fcdp
