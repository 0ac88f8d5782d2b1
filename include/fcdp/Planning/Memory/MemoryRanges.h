// SPDX-License-Identifier: Apache-2.0
//
// Rectangles of bytes and time. Knows no IR.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace fcdp {

/// Bytes [offset, offset + bytes) of the device arena while the operations
/// [begin, end) of a function run, in positions of its operations.
struct MemoryRange {
  int64_t offset, bytes;
  int64_t begin, end;
};

/// The part of the device arena that results of operators may not be in.
struct ReservedMemory {
  /// States take all bytes in front of this one, at all times.
  int64_t stateBytes = 0;
  /// Disjoint ranges. Places are multiples of the pool's alignment.
  std::vector<MemoryRange> ranges;
};

/// Returns disjoint ranges that cover the same bytes and positions.
std::vector<MemoryRange> makeDisjoint(llvm::ArrayRef<MemoryRange> ranges);

/// Returns disjoint ranges that cover what `reserved` does not of the bytes in
/// front of `end`, in a function of `length` operations.
std::vector<MemoryRange> findFreeMemory(const ReservedMemory &reserved,
                                        int64_t end, int64_t length);

} // namespace fcdp
