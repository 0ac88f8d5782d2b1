// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fcdp {

/// Bytes [begin, end) of a segment.
struct SegmentPart {
  uint64_t begin = 0, end = 0;
};

/// The segment that a rank maps. All ranks of a node must use the same options,
/// except for their own parts.
struct HostSegmentOptions {
  /// The name for the exchange between the ranks of one node. It must differ
  /// between jobs and nodes on one machine (see Job::segmentName).
  std::string name;
  uint32_t local = 0;
  uint32_t locals = 1;
  uint64_t bytes = 0;
  /// The bytes that this rank uses, whose pages it reserves.
  SegmentPart part;
  /// Called with the whole pages of `part` that the ranks before it do not use,
  /// before they are reserved. Optional.
  std::function<void(std::byte *base, uint64_t bytes)> place = nullptr;
  double timeoutSeconds = 60;
};

} // namespace fcdp
