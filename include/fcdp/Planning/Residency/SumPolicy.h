// SPDX-License-Identifier: Apache-2.0
//
// The table of what each function of a step does with the gradients of a
// bucket, from their pack to their accumulation over micro-batches. The pass
// --fcdp-accumulate applies this table and the residency estimate prices it;
// neither has a rule of its own. The prover's closed forms state the same rules
// independently. This code does not use the IR.
#pragma once

#include "dialects/Fcdp/StepFamily.h"

#include <array>

namespace fcdp {

/// The accumulation of a bucket's gradients, and the facts about it, that
/// determine its policy.
struct SumDecision {
  Accumulation accumulation = Accumulation::sharded;
  /// Whether the bucket has gradients.
  bool isTrainable = true;
  /// Whether a step has several micro-batches, and a job several nodes.
  bool hasSeveral = false, hasNodes = true;
};

/// How far gradients are reduced before they are summed over micro-batches.
enum class SumLevel {
  /// Not at all: each rank sums its own gradients.
  none,
  /// Within the node.
  node,
  /// Over all ranks.
  all
};

/// One row of the table: the gradients of one function. Functions that compute
/// no micro-batch do nothing with them.
struct SumActions {
  /// Whether the function reduces within the node, and between nodes, before or
  /// after the accumulation.
  bool reducesWithin = false, reducesBetween = false;
  /// Whether the function adds to the accumulator of earlier micro-batches. An
  /// accumulator in host memory is loaded for that.
  bool adds = false;
  /// Whether the function leaves the accumulator in the state for later
  /// micro-batches. An accumulator in host memory is stored for that.
  bool keeps = false;
};

/// The table of one bucket.
struct SumPolicy {
  explicit SumPolicy(const SumDecision &decision);

  const SumActions &get(Role role) const {
    return actions[static_cast<size_t>(role)];
  }
  bool isInHost() const { return state == StateRole::host_grad; }

  /// The reduction before the accumulation. The rest of the reduction follows
  /// the accumulation of the step's last micro-batch.
  SumLevel level = SumLevel::all;
  /// The state that accumulates the gradients. It is `grad`, where the
  /// optimizer reads gradients, if they are reduced over all ranks first.
  StateRole state = StateRole::grad;

private:
  std::array<SumActions, getMaxEnumValForRole() + 1> actions;
};

} // namespace fcdp
