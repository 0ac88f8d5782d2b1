// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/ArenaPacking.h"
#include "fcdp/Planning/Memory/HeldMemory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace fcdp {

/// Memory that the runtime takes from its pool while a function runs.
struct Activation {
  /// Whose result it is, or who uses it.
  mlir::Operation *op;
  /// Of the values alone.
  int64_t bytes;
  /// In use in [begin, end), in positions of the function's operations.
  int64_t begin, end;
};

/// The results of a function's ATen operators, from phase sharded on, by the
/// order of their allocation, and the gradients that the optimizer casts. A
/// result is in use from its operator to the last operation that reads it or
/// whatever may alias it: there the runtime drops it, as it issues operators in
/// the program's order. An operator that is not in the table of ATen operators
/// counts as one that makes new memory and keeps that of its operands, so that
/// the sum errs on the side of too much.
///
/// Memory that a kernel takes and gives back by itself is not in it: it depends
/// on the number of threads and on the library's choice of algorithm.
std::vector<Activation> findActivations(mlir::func::FuncOp function);

/// What a value of `bytes` takes of the runtime's pool, its tag included.
int64_t getPoolBytes(int64_t bytes);

/// The places that the runtime's pool gives, around what is held: each with the
/// pool's tag in front. The first buffers are what is held, states in front;
/// the others the activations. Time is counted as the runtime does: in
/// allocations, and in moments at which something begins or ends to be held.
PackingProblem makePoolProblem(llvm::ArrayRef<Activation> activations,
                               const HeldMemory &held);

} // namespace fcdp
