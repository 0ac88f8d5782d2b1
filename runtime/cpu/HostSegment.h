// SPDX-License-Identifier: Apache-2.0
//
// The host cache: one memory segment per node, shared by the node's ranks.
#pragma once

#include "cpu/HostSegmentOptions.h"

#include <cstddef>
#include <span>

namespace fcdp {

/// A mapped host segment, initially zero. Each rank reserves the memory of its
/// own part, all at once. So a lack of memory is an error here and not a signal
/// later, and the hand-over takes no longer for a large segment. The segment
/// has no name in any file system: the memory is freed when the last rank ends,
/// for whatever reason. Move-only; construction and destruction are not
/// thread-safe, and access to the memory is not synchronized.
class HostSegment {
public:
  /// Makes an empty segment.
  HostSegment() = default;
  /// Maps the segment. All local ranks call it with equal `bytes`. Throws
  /// std::runtime_error. An access outside of this rank's part raises a signal
  /// if the part's owner has not reserved it yet and memory is lacking.
  explicit HostSegment(const HostSegmentOptions &options);
  HostSegment(HostSegment &&other) noexcept;
  HostSegment &operator=(HostSegment &&other) noexcept;
  ~HostSegment();

  /// Returns null if the size is 0.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }
  /// Returns the whole pages that contain this rank's part; empty if it has no
  /// bytes. The first page may also contain bytes of the rank before.
  std::span<std::byte> pages() const { return {address + first, length}; }

private:
  std::byte *address = nullptr;
  void reserve(const HostSegmentOptions &options, int memory);

  uint64_t bytes = 0;
  /// The place of this rank's pages in the segment.
  uint64_t first = 0, length = 0;
};

} // namespace fcdp
