// SPDX-License-Identifier: Apache-2.0
//
// The host cache: one memory segment per node that the node's ranks share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fcdp {

struct HostSegmentOptions {
  /// Name for the exchange between the ranks of one node. It must differ
  /// between jobs and nodes on one machine (see Job::segmentName).
  std::string name;
  uint32_t local = 0;
  uint32_t locals = 1;
  uint64_t bytes = 0;
  double timeoutSeconds = 60;
};

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
