// SPDX-License-Identifier: Apache-2.0
//
// The table of what each function of a step does with the gathered copies of a
// bucket. The pass --fcdp-cache applies this table and the residency estimate
// prices it; neither has a rule of its own. The prover's closed forms state the
// same rules independently. This code does not use the IR.
#pragma once

#include "dialects/Fcdp/StepFamily.h"

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
  /// Whether the job evaluates the model between steps.
  bool isEvaluated = false;
  /// Whether each gather refers to the slice of the one before. That slice is
  /// then kept in host memory even if no use loads it.
  bool isReference = false;
};

/// The source of the copy for one use.
enum class CopySource {
  /// A gather between nodes yields this rank's slice, and one within the node
  /// the copy; or one flat gather does.
  network,
  /// A load from host memory yields the slice, a gather within the node the
  /// copy.
  host,
  /// The slice is on the device; a gather within the node yields the copy.
  slice,
  /// The copy is on the device.
  copy
};

/// The place of a copy until its next use.
enum class CopyPlace {
  /// Nowhere.
  none,
  /// Each rank's slice is in host memory.
  hostSlice,
  /// This rank's slice is on the device.
  deviceSlice,
  /// The whole copy is on the device.
  deviceCopy
};

/// One row of the table: the uses of one function.
struct CopyActions {
  /// Sources of the first use in program order, and of all later ones.
  CopySource first = CopySource::network, later = CopySource::network;
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

  /// The place of the copy between the uses of one micro-batch.
  CopyPlace within = CopyPlace::none;
  /// The state that keeps a copy for other functions or, in host memory, for
  /// later uses in the same function. Evaluations use the states of steps. In
  /// host memory they have a state for each bucket whose copies are kept there
  /// within a micro-batch.
  CopyPlace state = CopyPlace::none;
  /// Whether each micro-batch fills the state in host memory again, for its own
  /// uses.
  bool isInMicrobatch = false;

private:
  std::array<CopyActions, getMaxEnumValForRole() + 1> actions;
};

} // namespace fcdp
