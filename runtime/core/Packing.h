// SPDX-License-Identifier: Apache-2.0
//
// Places buffers of known sizes and lifetimes in one region.
//
// The one source that the compiler and the runtime both build: what the
// compiler plans for the results of operators is what the pool of the runtime
// comes to. So it knows neither LLVM nor libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace fcdp::packing {

struct Buffer {
  /// Size of its memory; not negative.
  int64_t bytes = 0;
  /// In use in [begin, end), in any unit of time; not empty.
  int64_t begin = 0, end = 0;
  /// The offset in bytes that it has to have; any if negative. Buffers with a
  /// given offset must not overlap.
  int64_t offset = -1;
};

struct Packing {
  /// Offset in bytes of each buffer, a multiple of the alignment.
  std::vector<int64_t> offsets;
  /// Bytes of the region, a multiple of the alignment.
  int64_t peak = 0;
};

/// Returns the least memory that any packing needs: the greatest sum of the
/// bytes in use at once, each buffer rounded up to `alignment`, or the greatest
/// end of a buffer with a given offset, if that is more.
int64_t lowerBound(const std::vector<Buffer> &buffers, int64_t alignment);

/// Buffers between two moments in which nothing is in use are placed apart
/// from the others, so that time grows with the number of such groups. Within a
/// group several orders are tried until one meets the lower bound: largest
/// first, most bytes times lifetime first, longest first, and as they come;
/// then the worst placed buffer goes first, a few times. Each order takes time
/// in the buffers times those that are in use around each (PlacedBuffers.h).
///
/// A given set of lifetimes gives one result, also where a group is placed
/// without the others.
Packing pack(const std::vector<Buffer> &buffers, int64_t alignment);

/// How the runtime's pool lays out an allocation: a tag that says how to free
/// it stands in front, and offsets are multiples of the same number.
inline constexpr int64_t kPoolAlignment = 64;
inline constexpr int64_t kPoolTagBytes = kPoolAlignment;

} // namespace fcdp::packing
