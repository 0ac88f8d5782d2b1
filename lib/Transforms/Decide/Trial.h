// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "StepDecisions.h"

namespace fcdp {

/// A copy of a step, to which a candidate's decisions are applied by the real
/// passes. So candidates are compared by the schedules that they would have,
/// and no second model of the passes can disagree with them. The step itself
/// stays as it is until a plan is chosen.
///
/// MLIR's verifier does not run between these passes, because it takes longer
/// than they do. Nothing is lost: the pipeline runs the same passes on the
/// chosen plan with the verifier, the phases' verifier passes and the prover.
class Trial {
public:
  explicit Trial(mlir::ModuleOp step)
      : step(mlir::cast<mlir::ModuleOp>(step->clone())) {}

  mlir::ModuleOp get() const { return *step; }

  /// Applies `plan`, and the outer steps and wires of `choices`.
  mlir::LogicalResult decide(const StepDecisions &plan, const CostModel &model,
                             const StepChoices &choices);
  /// Does the same, and takes the step to phase
  /// scheduled. Returns false if no schedule fits the memory.
  mlir::FailureOr<bool> schedule(const StepDecisions &plan,
                                 const CostModel &model,
                                 const StepChoices &choices);

private:
  /// Runs the passes that `build` adds.
  mlir::LogicalResult
  run(llvm::function_ref<void(mlir::OpPassManager &)> build);

  mlir::OwningOpRef<mlir::ModuleOp> step;
};

} // namespace fcdp
