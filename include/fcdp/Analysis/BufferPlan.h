// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/ArenaPacking.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

/// States and values start at multiples of this many bytes in an arena.
inline constexpr int64_t kBufferAlignment = 256;

/// Whether `op`'s result lives in memory that the plan gives and takes back.
bool isBuffered(mlir::Operation *op);

/// Whose lifetime the scratch memory of `reduce` has: the buffer that it
/// reduces, or else its result.
mlir::Operation *getScratchOwner(ReduceScatterOp reduce);

/// Sets the strides, in bytes, of the place that each rank's input of `gather`
/// has inside the result; that of an axis which it is not over is left alone.
void addStrides(AllGatherOp gather, int64_t &nodeStride, int64_t &localStride);

/// The states that hold sums of gradients: those of role `grad` by their
/// bucket's name, as `fcdp.accumulate` names them, all others by their own.
llvm::DenseMap<mlir::StringAttr, StateOp>
collectAccumulators(mlir::ModuleOp module);

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
