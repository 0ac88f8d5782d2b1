// SPDX-License-Identifier: Apache-2.0
//
// The functions of a step and the order in which a job runs them. Knows no IR.
//
// This is the one statement of the grammar
//
//   init ((first next* last | only) update outer_update* | evaluation)*
//   evaluation = first_evaluation next_evaluation*
//
// in the compiler. Whether an outer update follows an update, and those of
// which fragments, is known when the job runs. Where outer updates overlap,
// `last` is last_microbatch or last_outer_microbatch, and `only` likewise,
// which has the outer update of a fragment in it; then there is no
// outer_update. A step of several shapes has a variant for each of them, with
// micro-batches of its own: all micro-batches of one step are of one variant.
// The prover reads it, too: the grammar is what the runtime promises, so it is
// an assumption of the proof. The runtime links no MLIR and says by itself
// which function it calls next.
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

/// Returns whether a function of `role` synchronizes a fragment with other
/// nodes.
bool isOuter(Role role);

/// Returns the role of the same micro-batch without an outer update in it;
/// `role` for others.
Role getInnerRole(Role role);

/// Returns whether `role` is a step's first micro-batch. Sums of gradients
/// start there, and copies of trained parameters from before it are stale.
bool isFirstOfStep(Role role);

/// Returns whether `role` is a step's last micro-batch. Sums of gradients are
/// complete at its end.
bool isLastOfStep(Role role);

/// Returns whether nothing is in flight where a function of `role` begins and
/// where it ends: evaluations and outer updates, which may come between others.
bool isSynchronized(Role role);

/// Returns the roles that may run after `role`. But for those that are
/// synchronized, two roles that may be followed by one that is not have the
/// same of these as successors, or none in common.
llvm::ArrayRef<Role> getSuccessors(Role role);

/// Returns the boundary that `role` comes after: the first role that may follow
/// it. `init` comes after none and stands for itself.
Role getBoundary(Role role);

/// A function of the family: its role, and its variant, which is 0 for
/// functions that all variants share. The variant of one that synchronizes
/// nodes is the fragment.
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

/// Returns the variant of the step that has `which`: steps whose nodes are
/// synchronized by their micro-batches have one.
int64_t getStepVariant(VariantRole which);

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
  /// whether the job evaluates the model between steps. `fragments` is the
  /// number of those of outer steps, or 0 if there are none, and
  /// `overlapsOuter` tells whether micro-batches have outer updates in them.
  explicit StepFamily(int64_t microBatches, bool evaluates = false,
                      int64_t variants = 1, int64_t fragments = 0,
                      bool overlapsOuter = false)
      : microBatches(microBatches), evaluates(evaluates), variants(variants),
        fragments(fragments), overlapsOuter(overlapsOuter) {}

  /// Returns each function that there is, in program order. The micro-batches
  /// of a variant are together.
  llvm::SmallVector<VariantRole> getVariantRoles() const;

  /// Returns the role of each function that there is, in program order. With
  /// two micro-batches there is a `next_microbatch` that no step runs.
  llvm::SmallVector<Role> getRoles() const;

  /// Returns the roles of one optimizer step in the order in which they run.
  llvm::SmallVector<Role> getStep() const;

  /// Returns how often each optimizer step runs the function of `role`.
  int64_t countRuns(Role role) const;

  /// Returns whether a job runs the function of `role`.
  bool runs(Role role) const {
    return role == Role::init || (evaluates && isEvaluation(role)) ||
           (fragments > 0 && isOuter(role)) || countRuns(role) > 0;
  }

private:
  int64_t microBatches;
  bool evaluates;
  int64_t variants;
  int64_t fragments;
  bool overlapsOuter;
};

} // namespace fcdp
