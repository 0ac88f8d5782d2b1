// SPDX-License-Identifier: Apache-2.0
//
// The runtime's pool of memory for results of operators, as the compiler
// foresees it.
#pragma once

#include "fcdp/Planning/Memory/Activations.h"
#include "fcdp/Planning/Memory/ArenaPacking.h"
#include "fcdp/Planning/Memory/MemoryRanges.h"

namespace fcdp {

/// Returns the bytes that a value of `bytes` takes of the pool, its tag
/// included.
int64_t getPoolBytes(int64_t bytes);

/// Returns disjoint ranges that cover `ranges`: each end moves to the next
/// operation that uses the pool, each begin back to behind the last one, and
/// places to multiples of the pool's alignment. Takes time in the operations
/// and in the ranges times those that share bytes with each.
std::vector<MemoryRange> alignToPool(mlir::func::FuncOp function,
                                     std::vector<MemoryRange> ranges);

/// Returns the problem that the pool solves around reserved memory. Its first
/// buffers are the reserved memory, states in front; the others the
/// activations, each with the pool's tag in front. Time is counted as the
/// runtime counts it: in allocations, and in moments at which memory begins or
/// ends to be reserved.
PackingProblem makePoolProblem(llvm::ArrayRef<Activation> activations,
                               const ReservedMemory &reserved);

} // namespace fcdp
