// SPDX-License-Identifier: Apache-2.0
//
// The functions of a step and the order in which a job runs them. It does not
// use the IR.
//
// This is the one statement of the grammar
//
//   init ((first next* last | only) update outer_update* | evaluation)*
//   evaluation = first_evaluation next_evaluation*
//
// in the compiler. Whether outer updates follow an update, and of which
// fragments, is known only when the job runs. If outer updates overlap, `last`
// is last_microbatch or last_outer_microbatch, and `only` likewise. Such an
// outer micro-batch contains the outer update of a fragment, and there is no
// outer_update. A step of several shapes has a variant for each of them, with
// micro-batches of its own: all micro-batches of one step are of one variant.
// The prover reads it, too: the runtime guarantees the grammar, so it is an
// assumption of the proof. The runtime links no MLIR and decides by itself
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

/// Returns whether `role` is a step's first micro-batch. Gradient accumulators
/// start there, and earlier copies of trained parameters are stale.
bool isFirstOfStep(Role role);

/// Returns whether `role` is a step's last micro-batch. Gradient accumulators
/// are complete at its end.
bool isLastOfStep(Role role);

/// Returns whether nothing is in flight at the beginning and the end of a
/// function of `role`. This holds for evaluations and outer updates, which may
/// run between other functions.
bool isSynchronized(Role role);

/// Returns the roles that may run after `role`. Without synchronized roles, the
/// successors of any two roles are equal or disjoint.
llvm::ArrayRef<Role> getSuccessors(Role role);

/// Returns the boundary before `role`, identified by the first role that may
/// follow it. `init` follows none and identifies itself.
Role getBoundary(Role role);

/// A function of the family: its role, and its variant, which is 0 for
/// functions that all variants share. For a function that synchronizes nodes,
/// the variant is the fragment.
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

/// Returns the variant of the step that contains `which`. A step whose
/// micro-batches synchronize nodes has one variant.
int64_t getStepVariant(VariantRole which);

/// Returns whether `after` may run after `before`: its role may, and all
/// micro-batches of a step are of one variant.
bool mayFollow(VariantRole before, VariantRole after);

/// A boundary between functions: the first role that may follow, and the
/// variant if both neighbours are micro-batches of a step, or 0.
using FunctionBoundary = std::pair<Role, int64_t>;

/// Return the boundary after `which`, and the one before it. `init` follows
/// none and identifies itself.
FunctionBoundary getBoundaryBehind(VariantRole which);
FunctionBoundary getBoundaryBefore(VariantRole which);

/// The functions of a job whose steps have a given number of micro-batches.
class StepFamily {
public:
  /// Pre: `microBatches` and `variants` are 1 or more. `evaluates` tells
  /// whether the job evaluates the model between steps. `fragments` is the
  /// number of fragments of outer steps, or 0 if there are none, and
  /// `overlapsOuter` tells whether micro-batches contain outer updates.
  explicit StepFamily(int64_t microBatches, bool evaluates = false,
                      int64_t variants = 1, int64_t fragments = 0,
                      bool overlapsOuter = false)
      : microBatches(microBatches), evaluates(evaluates), variants(variants),
        fragments(fragments), overlapsOuter(overlapsOuter) {}

  /// Returns all functions in program order. The micro-batches of a variant are
  /// together.
  llvm::SmallVector<VariantRole> getVariantRoles() const;

  /// Returns the roles of all functions in program order. With two
  /// micro-batches there is a `next_microbatch` that no step runs.
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
