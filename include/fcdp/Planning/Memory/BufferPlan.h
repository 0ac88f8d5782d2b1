// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Analysis/Buffers.h"
#include "fcdp/Planning/Memory/ArenaPacking.h"
#include "fcdp/Planning/Memory/MemoryTimeline.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

/// The places of a module's states, which hold for the whole job.
struct StatePlan {
  /// Places by the state's name.
  llvm::DenseMap<mlir::StringAttr, BufferAttr> places;
  /// Bytes of the device arena, per rank, that states use, except for states of
  /// role `prefetched`. These follow, and values may use their memory while no
  /// copy is in it or in flight to it.
  int64_t deviceBytes = 0;
  /// The first byte of buffers that are in flight when a function ends, behind
  /// those.
  int64_t lateBegin = 0;
};
StatePlan planStates(mlir::ModuleOp module);

/// The places of a scheduled function's values in the device arena, after the
/// states.
struct BufferPlan {
  /// The memory of each buffered operation's result.
  llvm::MapVector<mlir::Operation *, BufferAttr> places;
  llvm::MapVector<mlir::Operation *, BufferAttr> scratches;
  /// The end of the device arena with these places, the states, and the results
  /// of operators around them.
  int64_t arenaBytes = 0;
};

/// Gives places to the buffers of `function` that have none yet. A `buffer`
/// that an operation already has stays, unless the memory of a state is the
/// only place for the value. Changes nothing. Requires collectives of flat
/// tensors. An error, such as a value that is never released, is reported.
mlir::FailureOr<BufferPlan> planBuffers(mlir::func::FuncOp function,
                                        const MemoryTimeline &timeline,
                                        const StatePlan &states);

/// Returns the problem that planBuffers solves. Places count from where states
/// end.
mlir::FailureOr<PackingProblem> describeBuffers(mlir::func::FuncOp function,
                                                const MemoryTimeline &timeline,
                                                const StatePlan &states);

} // namespace fcdp
