// SPDX-License-Identifier: Apache-2.0
//
// The host cache: one memory segment per node, shared by the node's ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fcdp {

struct HostSegmentOptions {
  /// Names the hand-over between the ranks of one node; must differ between
  /// jobs and nodes on one machine (see Job::segmentName).
  std::string name;
  uint32_t local = 0;
  uint32_t locals = 1;
  uint64_t bytes = 0;
  double timeoutSeconds = 60;
};

/// A mapped host segment, filled with zeros when made. Local rank 0 reserves
/// the memory in full before anyone maps it, so that a full memory is an error
/// here and not a signal later. It has no name in any file system: when the
/// last rank has ended, however it ended, the memory is free again.
/// Move-only; not thread-safe to make or destroy, the memory itself is plain.
class HostSegment {
public:
  /// An empty segment.
  HostSegment() = default;
  /// Called by all local ranks with equal `bytes`; throws std::runtime_error.
  explicit HostSegment(const HostSegmentOptions &options);
  HostSegment(HostSegment &&other) noexcept;
  HostSegment &operator=(HostSegment &&other) noexcept;
  ~HostSegment();

  /// Null if the size is zero.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }

private:
  std::byte *address = nullptr;
  uint64_t bytes = 0;
};

} // namespace fcdp
