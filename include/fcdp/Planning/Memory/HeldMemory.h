// SPDX-License-Identifier: Apache-2.0
//
// What of the device arena is held for states and values, and when. The rest
// is lent to the results of compute's operators.
#pragma once

#include "fcdp/Planning/Memory/MemoryLayout.h"

#include <vector>

namespace fcdp {

/// Bytes [offset, offset + bytes) of the device arena, on all ranks together,
/// that no operator may have results in while those of [begin, end) run, in
/// positions of the function's operations.
struct HeldRange {
  int64_t offset, bytes;
  int64_t begin, end;
};

struct HeldMemory {
  /// States hold all bytes in front of this one, always.
  int64_t stateBytes = 0;
  /// Apart in time or place. Places are multiples of the pool's alignment.
  std::vector<HeldRange> ranges;
};

/// Whether memory of the runtime's pool may be taken or given back while `op`
/// runs: the others need not be told apart from those around them.
bool usesPool(mlir::Operation *op);

/// Bytes of `buffer` on all ranks together: where they begin, and where they
/// end; what does not fit in an integer ends far behind any memory.
std::pair<int64_t, int64_t> getExtent(BufferAttr buffer, MeshOp mesh);

/// A value holds its memory from the operation that first writes to it, of
/// which
/// --fcdp-verify-plan proves that its stream has waited for what compute did
/// before, to its release, where compute has waited for all who use it. What is
/// in flight at a function's end is held until the next function has waited for
/// it. A state of role `prefetched` is held until the last use of the copy that
/// has arrived, and from where the next one is written.
HeldMemory findHeldMemory(mlir::func::FuncOp function,
                          const MemoryLayouts &layouts);

/// What is not held of bytes [stateBytes, end): what operators of compute may
/// have results in, as ranges that are apart.
std::vector<HeldRange> findLentMemory(mlir::func::FuncOp function,
                                      const HeldMemory &held, int64_t end);

/// The same bytes and positions, as ranges that are apart.
std::vector<HeldRange> makeDisjoint(llvm::ArrayRef<HeldRange> ranges);

/// Makes `ranges` apart, after moving their ends to the next operation that
/// uses the pool, and likewise their begins, but not over such an operation.
std::vector<HeldRange> alignToPool(mlir::func::FuncOp function,
                                   std::vector<HeldRange> ranges);

} // namespace fcdp
