// SPDX-License-Identifier: Apache-2.0
//
// Places buffers of known sizes and lifetimes in one memory region.
//
// This is the only source that is built into both the compiler and the runtime.
// So the memory that the compiler plans for operator results equals the memory
// that the runtime's pool uses. It depends neither on LLVM nor on libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace fcdp::packing {

struct Buffer {
  /// Size of its memory; not negative.
  int64_t bytes = 0;
  /// Lifetime [begin, end) in any unit of time; not empty.
  int64_t begin = 0, end = 0;
  /// The offset in bytes that it has to have; any if negative. Buffers with a
  /// given offset must not overlap.
  int64_t offset = -1;
};

struct Packing {
  /// Offset of each buffer in bytes, a multiple of the alignment.
  std::vector<int64_t> offsets;
  /// Bytes of the region, a multiple of the alignment.
  int64_t peak = 0;
  /// The orders that were tried, over all groups.
  int64_t attempts = 0;
};

/// How far to search. `Orders` leaves out what takes most of the time where the
/// lower bound is not met: placing the worst buffer first.
enum class Effort { Orders, Full };

/// Returns the least memory that any packing needs: the greatest sum of the
/// bytes in use at once, each buffer rounded up to `alignment`, or the greatest
/// end of a buffer with a given offset, if that is more.
int64_t lowerBound(const std::vector<Buffer> &buffers, int64_t alignment);

/// Buffers between two moments in which nothing is in use are placed apart
/// from the others, so that time grows with the number of such groups. Within a
/// group several orders are tried until one meets the lower bound: largest
/// first, most bytes times lifetime first, longest first, and as they come;
/// then, with full effort, the worst placed buffer goes first, a few times. The
/// result of less effort is the same if it meets the bound. Each order takes
/// time in the buffers times those that are in use around each
/// (PlacedBuffers.h).
///
/// The result is deterministic, and does not depend on whether a group is
/// placed alone or with others.
Packing pack(const std::vector<Buffer> &buffers, int64_t alignment,
             Effort effort = Effort::Full);

/// Layout of an allocation in the runtime's pool: it begins with a tag that
/// says how to free it, and its offset is a multiple of kPoolAlignment.
inline constexpr int64_t kPoolAlignment = 64;
inline constexpr int64_t kPoolTagBytes = kPoolAlignment;

} // namespace fcdp::packing
