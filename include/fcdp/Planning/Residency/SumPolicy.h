// SPDX-License-Identifier: Apache-2.0
//
// The table of what each function of a step does with the gradients of a
// bucket, from their pack to their sum over micro-batches.
// The pass --fcdp-accumulate applies this table and the residency estimate
// prices it; neither has a rule of its own. The prover's closed forms state the
// same independently. Knows no IR.
#pragma once

#include "dialects/Fcdp/StepFamily.h"

#include <array>

namespace fcdp {

/// The decision on the sums of a bucket, and the facts, that its policy depends
/// on.
struct SumDecision {
  Accumulation accumulation = Accumulation::sharded;
  /// Without it the bucket has no gradients.
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

/// One row of the table: the gradients of one function. Not in functions that
/// compute no micro-batch.
struct SumActions {
  /// Whether the function reduces within the node, and between nodes, be it in
  /// front of the sum or behind it.
  bool reducesWithin = false, reducesBetween = false;
  /// Whether it adds to the sum of earlier micro-batches. A sum in host memory
  /// is loaded for that.
  bool adds = false;
  /// Whether it leaves the sum in the state for later micro-batches. A sum in
  /// host memory is stored for that.
  bool keeps = false;
};

/// The table of one bucket.
struct SumPolicy {
  explicit SumPolicy(const SumDecision &decision);

  const SumActions &get(Role role) const {
    return actions[static_cast<size_t>(role)];
  }
  bool isInHost() const { return state == StateRole::host_grad; }

  /// The reduction in front of the sum. What is left of it comes behind the sum
  /// of the step's last micro-batch.
  SumLevel level = SumLevel::all;
  /// The state of the sum. `grad`, in which the optimizer finds gradients, if
  /// they are reduced before.
  StateRole state = StateRole::grad;

private:
  std::array<SumActions, getMaxEnumValForRole() + 1> actions;
};

} // namespace fcdp
