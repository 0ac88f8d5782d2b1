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
  /// Bytes of the device arena that a rank's states use, except for states of
  /// role `prefetched`. These follow, and values may use their memory while no
  /// copy is in it or in flight to it.
  int64_t deviceBytes = 0;
  /// The offset of the buffers that are in flight when a function ends, after
  /// the prefetched states.
  int64_t lateBegin = 0;
  /// The host memory of each operation that stores a value.
  llvm::MapVector<mlir::Operation *, BufferAttr> stored;
};
StatePlan planStates(mlir::ModuleOp module);

/// The places of a scheduled function's values in the device arena, after the
/// states.
struct BufferPlan {
  /// The memory of each buffered operation's result.
  llvm::MapVector<mlir::Operation *, BufferAttr> places;
  llvm::MapVector<mlir::Operation *, BufferAttr> scratches;
  /// The end of the device arena with these places, the states, and the results
  /// of operators placed around them.
  int64_t arenaBytes = 0;
};

/// Plans places for the buffers of `function` that have none yet. A `buffer`
/// that an operation already has stays, unless a state's memory is the only
/// possible place for the value. Does not change the IR. Requires collectives
/// of flat tensors. Reports errors, such as a value that is never released.
mlir::FailureOr<BufferPlan> planBuffers(mlir::func::FuncOp function,
                                        const MemoryTimeline &timeline,
                                        const StatePlan &states);

/// Returns the problem that planBuffers solves. Offsets count from the end of
/// the states.
mlir::FailureOr<PackingProblem> describeBuffers(mlir::func::FuncOp function,
                                                const MemoryTimeline &timeline,
                                                const StatePlan &states);

} // namespace fcdp
