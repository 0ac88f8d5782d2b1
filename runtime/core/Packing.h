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
  /// Size of the buffer's memory in bytes; not negative.
  int64_t bytes = 0;
  /// Lifetime [begin, end) in any unit of time; not empty.
  int64_t begin = 0, end = 0;
  /// The required offset in bytes; negative for any. Buffers with a required
  /// offset must not overlap.
  int64_t offset = -1;
};

struct Packing {
  /// Offset of each buffer in bytes, a multiple of the alignment.
  std::vector<int64_t> offsets;
  /// Bytes of the region, a multiple of the alignment.
  int64_t peak = 0;
  /// The number of orders that were tried, over all groups.
  int64_t attempts = 0;
};

/// The effort of the search. `Orders` omits the slowest part, which places the
/// worst buffer first and is needed only if the lower bound is not met.
enum class Effort { Orders, Full };

/// Returns a lower bound on the memory of any packing: the greatest sum of the
/// bytes in use at once, each buffer rounded up to `alignment`, or the greatest
/// end of a buffer with a required offset, if that is more.
int64_t lowerBound(const std::vector<Buffer> &buffers, int64_t alignment);

/// Places buffers. Buffers between two moments in which nothing is in use form
/// a group that is placed apart from the others, so time is linear in the
/// number of groups. Within a group several orders are tried until one meets
/// the lower bound: largest first, most bytes times lifetime first, longest
/// first, and the given order. Then, with full effort, the worst placed buffer
/// moves to the front, a few times. Less effort gives the same result if it
/// meets the bound. The time of an order is proportional to the buffers times
/// those in use around each of them (PlacedBuffers.h).
///
/// The result is deterministic, and does not depend on whether a group is
/// placed alone or with others.
Packing pack(const std::vector<Buffer> &buffers, int64_t alignment,
             Effort effort = Effort::Full);

/// The layout of an allocation in the runtime's pool. It begins with a tag that
/// records how to free it, and its offset is a multiple of kPoolAlignment.
inline constexpr int64_t kPoolAlignment = 64;
inline constexpr int64_t kPoolTagBytes = kPoolAlignment;

} // namespace fcdp::packing
