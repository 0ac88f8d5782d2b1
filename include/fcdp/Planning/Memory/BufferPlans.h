// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/BufferPlan.h"

namespace fcdp {

/// The plans of a scheduled module's functions. Each plan is made when it is
/// first requested. As an analysis of the pass manager, it lets
/// --fcdp-plan-memory reuse the final plans of --fcdp-make-gradients-in-place:
/// packing takes most of the time of both.
class BufferPlans {
public:
  explicit BufferPlans(mlir::Operation *module);

  const MemoryTimeline &getTimeline() const { return timeline; }
  const StatePlan &getStates() const { return states; }

  /// Returns the plan of `function`. Reports an error.
  mlir::FailureOr<const BufferPlan *> lookup(mlir::func::FuncOp function);

  /// Plans `function` again, after the set of gradients that are written in
  /// place has changed.
  mlir::FailureOr<const BufferPlan *> replan(mlir::func::FuncOp function);

  /// Restores `plan`, after the gradients that it was made for are written in
  /// place again.
  void restore(mlir::func::FuncOp function, BufferPlan plan);

private:
  MemoryTimeline timeline;
  StatePlan states;
  llvm::DenseMap<mlir::Operation *, BufferPlan> plans;
};

} // namespace fcdp
