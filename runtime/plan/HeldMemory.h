// SPDX-License-Identifier: Apache-2.0
//
// What of the device arena is not the pool's, and when, and where in it the
// compiler expects results of operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fcdp {

/// Bytes [offset, offset + bytes) of the device arena that operators must not
/// have results in from in front of operation `from` to in front of `to`.
struct HeldRange {
  size_t from = 0, to = 0;
  uint64_t offset = 0, bytes = 0;
};

/// In front of operation `op`, or behind the last one: which ranges, by index,
/// end and begin to be held.
struct HeldMoment {
  size_t op;
  std::vector<uint32_t> ends, begins;
};

/// Of one function.
struct HeldMemory {
  HeldMemory() = default;
  explicit HeldMemory(std::vector<HeldRange> ranges);

  std::vector<HeldRange> ranges;
  /// By operation.
  std::vector<HeldMoment> moments;
};

/// Bytes [offset, offset + bytes) of the device arena for a result of operation
/// `op`, with the pool's tag in front.
struct ResultPlace {
  size_t op = 0;
  uint64_t offset = 0, bytes = 0;
};

} // namespace fcdp
