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
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <string>
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

/// Returns whether copies of trained parameters that were made before a
/// function of `role` may be stale: it is the first of a step, or of an
/// evaluation.
bool findsStaleCopies(Role role);

/// Returns whether a function of `role` runs the model, but in no step. It
/// takes no gradients.
bool runsBetweenSteps(Role role);

/// Returns whether only some of a job's steps run the function of `role`, after
/// the update or in place of the last micro-batch.
bool runsInSomeSteps(Role role);

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

/// A function of the family. Functions of one role have different numbers: a
/// micro-batch has the number of its variant of the step, a function that
/// synchronizes nodes the number of its fragment, and all others have 0.
struct FamilyMember {
  Role role;
  int64_t number = 0;

  /// Returns the number of the step that contains it, among the variants of the
  /// step. A step whose micro-batches synchronize nodes has one variant.
  int64_t getStep() const;

  bool operator==(const FamilyMember &other) const {
    return role == other.role && number == other.number;
  }
  bool operator<(const FamilyMember &other) const {
    return std::tie(role, number) < std::tie(other.role, other.number);
  }
};

/// Returns whether functions of `role` have numbers, if there are several.
bool isNumbered(Role role);
/// The things that these numbers count, as messages put them.
inline constexpr const char *kCountedByNumbers =
    "a variant of a micro-batch or a fragment";

/// Returns whether `after` may run after `before`: its role may, and all
/// micro-batches of a step are of one variant.
bool mayFollow(FamilyMember before, FamilyMember after);

/// A boundary between functions: the first role that may follow, and the
/// number of the step if both neighbours are micro-batches of a step, or 0.
using FunctionBoundary = std::pair<Role, int64_t>;

/// Return the boundary after `which`, and the one before it. `init` follows
/// none and identifies itself.
FunctionBoundary getBoundaryBehind(FamilyMember which);
FunctionBoundary getBoundaryBefore(FamilyMember which);

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
  llvm::SmallVector<FamilyMember> getMembers() const;

  /// Returns the roles of all functions in program order. With two
  /// micro-batches there is a `next_microbatch` that no step runs.
  llvm::SmallVector<Role> getRoles() const;

  /// Returns the roles of one optimizer step in the order in which they run.
  llvm::SmallVector<Role> getStep() const;

  /// Returns the roles of a step that also runs the functions of those roles
  /// for which `runs` returns true, of roles that only some steps run.
  llvm::SmallVector<Role> getStep(llvm::function_ref<bool(Role)> runs) const;

  /// Returns how often each optimizer step runs the function of `role`.
  int64_t countRuns(Role role) const;

  /// Returns the number of functions of `role`, if its functions are numbered.
  int64_t countFunctions(Role role) const {
    return isOuter(role) ? fragments : variants;
  }

  /// Returns the functions as messages put them, "@init, @update, ...", with
  /// the attributes of a module from which they follow.
  std::string describe() const;

  /// Returns the number of variants of the step and fragments of outer steps.
  int64_t countNumbers() const { return variants + fragments; }

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
