// SPDX-License-Identifier: Apache-2.0
//
// The compiler's model of the runtime's pool for results of operators.
#pragma once

#include "fcdp/Planning/Memory/Activations.h"
#include "fcdp/Planning/Memory/ArenaPacking.h"
#include "fcdp/Planning/Memory/MemoryRanges.h"

namespace fcdp {

/// Returns the bytes that a value of `bytes` uses in the pool, including its
/// tag.
int64_t getPoolBytes(int64_t bytes);

/// Returns disjoint ranges that cover `ranges`. Each end moves to the next
/// operation that uses the pool, each begin moves back to just after the last
/// such operation, and places become multiples of the pool's alignment. The
/// time is proportional to the operations, plus the ranges times those that
/// share bytes with each.
std::vector<MemoryRange> alignToPool(mlir::func::FuncOp function,
                                     std::vector<MemoryRange> ranges);

/// Returns the problem that the pool solves around reserved memory. Its first
/// buffers are the reserved memory, beginning with the states. The others are
/// the activations, each with the pool's tag in front. Time is counted as in
/// the runtime: by allocations, and by the points at which a reservation begins
/// or ends.
PackingProblem makePoolProblem(llvm::ArrayRef<Activation> activations,
                               const ReservedMemory &reserved);

} // namespace fcdp
