// SPDX-License-Identifier: Apache-2.0
//
// The functions of a step and the order in which a job runs them. Knows no IR.
//
// This is the one statement of the grammar
//
//   init (first next* last update | only update | evaluation)*
//   evaluation = first_evaluation next_evaluation*
//
// in the compiler. A step of several shapes has a variant for each of them,
// with micro-batches of its own: all micro-batches of one step are of one
// variant. The prover reads it, too: the grammar is what the runtime promises,
// so it is an assumption of the proof. The runtime links no MLIR and says by
// itself which function it calls next.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <tuple>
#include <utility>

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

/// A function of the family: its role, and its variant, which is 0 for
/// functions that all variants share.
struct VariantRole {
  Role role;
  int64_t variant = 0;

  bool operator==(const VariantRole &other) const {
    return role == other.role && variant == other.variant;
  }
  bool operator<(const VariantRole &other) const {
    return std::tie(role, variant) < std::tie(other.role, other.variant);
  }
};

/// Returns whether `after` may run after `before`: the role may, and all
/// micro-batches of a step are of one variant.
bool mayFollow(VariantRole before, VariantRole after);

/// A boundary between functions: the first role that may follow, and the
/// variant if both sides are micro-batches of a step, or 0.
using FunctionBoundary = std::pair<Role, int64_t>;

/// Return the boundary that `which` ends at, and the one that it comes after.
/// `init` comes after none and stands for itself.
FunctionBoundary getBoundaryBehind(VariantRole which);
FunctionBoundary getBoundaryBefore(VariantRole which);

/// The functions of a job whose steps have a given number of micro-batches.
class StepFamily {
public:
  /// Pre: `microBatches` and `variants` are 1 or more. `evaluates` tells
  /// whether the job evaluates the model between steps.
  explicit StepFamily(int64_t microBatches, bool evaluates = false,
                      int64_t variants = 1)
      : microBatches(microBatches), evaluates(evaluates), variants(variants) {}

  /// Returns each function that there is, in program order. The micro-batches
  /// of a variant are together.
  llvm::SmallVector<VariantRole> getVariantRoles() const;

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
  int64_t variants;
};

} // namespace fcdp
