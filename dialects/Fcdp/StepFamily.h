// SPDX-License-Identifier: Apache-2.0
//
// The functions of a step and the order in which a job runs them. Knows no IR.
//
// This is the one statement of the grammar
//
//   init (first next* last update | only update | evaluation)*
//   evaluation = first_evaluation next_evaluation*
//
// in the compiler. The prover reads it, too: the grammar is what the runtime
// promises, so it is an assumption of the proof. The runtime links no MLIR and
// says by itself which function it calls next.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace fcdp {

/// Returns whether a function of `role` computes a micro-batch of a step, with
/// its gradients.
bool isMicrobatch(Role role);

/// Returns whether a function of `role` evaluates the model on one batch.
bool isEvaluation(Role role);

/// Returns whether a function of `role` runs the model: isMicrobatch or
/// isEvaluation.
bool runsModel(Role role);

/// Returns whether `role` is a step's first micro-batch. Sums of gradients
/// start there, and copies of trained parameters from before it are stale.
bool isFirstOfStep(Role role);

/// Returns whether `role` is a step's last micro-batch. Sums of gradients are
/// complete at its end.
bool isLastOfStep(Role role);

/// Returns the roles that may run after `role`. Two roles other than those of
/// evaluations, at whose end nothing is in flight, have the same successors or
/// none in common.
llvm::ArrayRef<Role> getSuccessors(Role role);

/// Returns the boundary that `role` comes after: the first role that may follow
/// it. `init` comes after none and stands for itself.
Role getBoundary(Role role);

/// The functions of a job whose steps have a given number of micro-batches.
class StepFamily {
public:
  /// Pre: `microBatches` is 1 or more. `evaluates` tells whether the job
  /// evaluates the model between steps.
  explicit StepFamily(int64_t microBatches, bool evaluates = false)
      : microBatches(microBatches), evaluates(evaluates) {}

  /// Returns the role of each function that there is, in program order. With
  /// two micro-batches there is a `next_microbatch` that no step runs.
  llvm::ArrayRef<Role> getRoles() const;

  /// Returns the roles of one optimizer step in the order in which they run.
  llvm::SmallVector<Role> getStep() const;

  /// Returns how often an optimizer step runs the function of `role`.
  int64_t countRuns(Role role) const;

  /// Returns whether a job runs the function of `role`.
  bool runs(Role role) const {
    return role == Role::init || (evaluates && isEvaluation(role)) ||
           countRuns(role) > 0;
  }

private:
  int64_t microBatches;
  bool evaluates;
};

} // namespace fcdp
