// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Analysis/Buffers.h"
#include "fcdp/Planning/Memory/ArenaPacking.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

/// The places of a module's states, which hold for the whole job.
struct StatePlan {
  /// By the state's name.
  llvm::DenseMap<mlir::StringAttr, BufferAttr> places;
  /// Bytes of the device arena, per rank, that they take, but for those of role
  /// `prefetched`: these come next, and values may use their memory where
  /// neither a copy is in it nor one on its way.
  int64_t deviceBytes = 0;
  /// Where what is in use over the end of a function begins, behind those.
  int64_t lateBegin = 0;
};
StatePlan planStates(mlir::ModuleOp module);

/// The places of a scheduled function's values in the device arena, after the
/// states.
struct BufferPlan {
  /// The memory of each buffered operation's result.
  llvm::MapVector<mlir::Operation *, BufferAttr> places;
  llvm::MapVector<mlir::Operation *, BufferAttr> scratches;
  /// Where the device arena ends with them, the states, and the results of
  /// operators around them.
  int64_t arenaBytes = 0;
};

/// Gives places to what has none yet; a `buffer` that an operation already has
/// stays, unless the memory of a state is the only place for the value.
/// Changes nothing. Requires collectives of flat tensors. An
/// error, such as a value that is never released, is reported.
mlir::FailureOr<BufferPlan> planBuffers(mlir::func::FuncOp function,
                                        const StatePlan &states);

/// The problem that it solves: what lives when. Places count from where states
/// end.
mlir::FailureOr<PackingProblem> describeBuffers(mlir::func::FuncOp function,
                                                const StatePlan &states);

} // namespace fcdp
