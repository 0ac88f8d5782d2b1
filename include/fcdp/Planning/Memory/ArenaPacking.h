// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// Buffers with lifetimes, to be placed in one arena. Knows no IR.
struct PackingProblem {
  struct Buffer {
    int64_t bytes;
    /// Lives in [begin, end), in positions of the program.
    int64_t begin, end;
    /// The required offset; negative if any offset will do.
    int64_t offset = -1;
  };
  llvm::SmallVector<Buffer> buffers;
  /// Every offset is a multiple of it, in bytes.
  int64_t alignment = 256;

  /// Fails on negative sizes, empty lifetimes or a bad alignment, also of where
  /// a buffer has to be.
  llvm::Error check() const;
};

struct PackingSolution {
  /// Offset in bytes of each buffer.
  llvm::SmallVector<int64_t> offsets;
  /// Bytes of the arena; packArena rounds up to the alignment.
  int64_t peak = 0;
  /// The orders that were tried, which is most of the time.
  int64_t attempts = 0;

  /// Fails if two buffers overlap in time and place, one is misaligned, ends
  /// after the peak or is not where it has to be, or some have no offset.
  llvm::Error verify(const PackingProblem &problem) const;
};

/// Places buffers as runtime/core/Packing.h says.
PackingSolution packArena(const PackingProblem &problem);

/// Does so with packing::Effort::Orders, which takes a small part of the time
/// where the lower bound is not met.
PackingSolution packArenaQuickly(const PackingProblem &problem);

/// The least memory that any packing needs: the greatest sum of live bytes,
/// each buffer rounded up to the alignment.
int64_t lowerBound(const PackingProblem &problem);

} // namespace fcdp
