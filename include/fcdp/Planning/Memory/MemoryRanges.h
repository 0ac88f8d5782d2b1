// SPDX-License-Identifier: Apache-2.0
//
// Rectangles of bytes and time. This code does not use the IR.
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

/// The part of the device arena that the results of operators may not use.
struct ReservedMemory {
  /// States use all bytes before this one, at all times.
  int64_t stateBytes = 0;
  /// Disjoint ranges. Places are multiples of the pool's alignment.
  std::vector<MemoryRange> ranges;
};

/// Returns disjoint ranges that cover the same bytes and positions.
std::vector<MemoryRange> makeDisjoint(llvm::ArrayRef<MemoryRange> ranges);

/// Returns disjoint ranges that cover all bytes before `end` that are not in
/// `reserved`, in a function of `length` operations.
std::vector<MemoryRange> findFreeMemory(const ReservedMemory &reserved,
                                        int64_t end, int64_t length);

} // namespace fcdp
