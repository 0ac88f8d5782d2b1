// SPDX-License-Identifier: Apache-2.0
//
// The table of what each function of a step does with the gathered copies of a
// bucket. The pass --fcdp-cache applies this table and the residency estimate
// prices it; neither has a rule of its own. The prover's closed forms state the
// same rules independently. This code does not use the IR.
#pragma once

#include "dialects/Fcdp/StepFamily.h"
#include "dialects/Fcdp/Tiers.h"

#include <array>

namespace fcdp {

/// The decisions on a bucket, and the facts about it, that determine its
/// policy.
struct CopyDecision {
  /// The place of the copy between the uses of a micro-batch, and from its last
  /// use there to the next micro-batch or, if frozen, to the next step.
  Residency residency = Residency::drop, carry = Residency::drop;
  bool isTrainable = true;
  /// Whether a step has several micro-batches.
  bool hasSeveral = false;
  /// Whether a micro-batch uses the copy in several live ranges.
  bool isUsedAgain = true;
  /// Whether the job runs the model between steps, too.
  bool runsBetweenSteps = false;
  /// Whether each gather refers to the slice of the one before. That slice is
  /// then stored even if no use loads it.
  bool isReference = false;
};

/// One row of the table: the uses of one function.
struct CopyActions {
  /// The tiers that the first use in program order, and all later ones, fetch
  /// the copy from.
  Residency first = Residency::drop, later = Residency::drop;
  /// Whether the first gather also fills the bucket's state. For `init`, which
  /// has no uses, this gather is added.
  bool fillsState = false;
};

/// The table of one bucket.
struct CopyPolicy {
  explicit CopyPolicy(const CopyDecision &decision);

  const CopyActions &get(Role role) const {
    return actions[static_cast<size_t>(role)];
  }

  /// Returns how often an optimizer step gathers over the network if each
  /// micro-batch has `uses` live ranges of the copy.
  int64_t countNetworkGathers(int64_t microBatches, int64_t uses) const;

  /// The tier of the copy between the uses of one micro-batch.
  Residency within = Residency::drop;
  /// The tier of the state that keeps a copy for other functions or, outside of
  /// the device, for later uses in the same function. Evaluations use the
  /// states of steps. Outside of the device they have a state for each bucket
  /// whose copies are kept there within a micro-batch.
  Residency state = Residency::drop;
  /// Whether each micro-batch fills the state outside of the device again, for
  /// its own uses.
  bool isInMicrobatch = false;

private:
  std::array<CopyActions, getMaxEnumValForRole() + 1> actions;
};

} // namespace fcdp
