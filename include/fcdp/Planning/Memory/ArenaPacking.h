// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// Buffers with lifetimes that are to be placed in one arena. It does not use
/// the IR.
struct PackingProblem {
  struct Buffer {
    int64_t bytes;
    /// The lifetime [begin, end), in positions of the program.
    int64_t begin, end;
    /// The required offset; negative if any offset will do.
    int64_t offset = -1;
  };
  llvm::SmallVector<Buffer> buffers;
  /// Alignment of every offset, in bytes.
  int64_t alignment = 256;

  /// Fails on negative sizes, empty lifetimes, a bad alignment, or a required
  /// offset that is not aligned.
  llvm::Error check() const;
};

struct PackingSolution {
  /// Offset in bytes of each buffer.
  llvm::SmallVector<int64_t> offsets;
  /// Bytes of the arena; packArena rounds up to the alignment.
  int64_t peak = 0;
  /// The number of orders that were tried, which take most of the time.
  int64_t attempts = 0;

  /// Fails if buffers overlap in time and place, or if a buffer has no offset,
  /// is misaligned, ends after the peak or is not at its required offset.
  llvm::Error verify(const PackingProblem &problem) const;
};

/// Places buffers by the algorithm of runtime/core/Packing.h.
PackingSolution packArena(const PackingProblem &problem);

/// Does the same with packing::Effort::Orders, which is much faster where the
/// lower bound is not met.
PackingSolution packArenaQuickly(const PackingProblem &problem);

/// Returns a lower bound on the memory of any packing: the greatest sum of live
/// bytes, with each buffer rounded up to the alignment.
int64_t lowerBound(const PackingProblem &problem);

} // namespace fcdp
