// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/BufferPlan.h"

namespace fcdp {

/// The plans of a scheduled module's functions. Each is made when it is first
/// asked for. An analysis of the pass manager, so that --fcdp-plan-memory takes
/// over the plans that --fcdp-make-gradients-in-place has settled on: packing
/// is most of the time of both.
class BufferPlans {
public:
  explicit BufferPlans(mlir::Operation *module);

  const MemoryTimeline &getTimeline() const { return timeline; }
  const StatePlan &getStates() const { return states; }

  /// Returns the plan of `function`. An error is reported.
  mlir::FailureOr<const BufferPlan *> lookup(mlir::func::FuncOp function);

  /// Plans `function` again, after other gradients are written in place.
  mlir::FailureOr<const BufferPlan *> replan(mlir::func::FuncOp function);

  /// Goes back to `plan`, after the gradients that it was made for are written
  /// in place again.
  void restore(mlir::func::FuncOp function, BufferPlan plan);

private:
  MemoryTimeline timeline;
  StatePlan states;
  llvm::DenseMap<mlir::Operation *, BufferPlan> plans;
};

} // namespace fcdp
