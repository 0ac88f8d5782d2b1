// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/SumPolicy.h"

#include "llvm/Support/ErrorHandling.h"

using namespace fcdp;

/// Returns `sharded` if there is nothing to accumulate, or nothing to reduce
/// after the accumulation, because all modes are then the same.
static Accumulation getMode(const SumDecision &decision) {
  bool isNothing = !decision.isTrainable || !decision.hasSeveral ||
                   (sumsSlice(decision.accumulation) && !decision.hasNodes);
  return isNothing ? Accumulation::sharded : decision.accumulation;
}

static StateRole getState(Accumulation mode) {
  switch (mode) {
  case Accumulation::sharded:
    return StateRole::grad;
  case Accumulation::node:
    return StateRole::node_grad;
  case Accumulation::node_host:
    return StateRole::host_grad;
  case Accumulation::full:
    return StateRole::full_grad;
  }
  llvm_unreachable("unknown accumulation");
}

static SumLevel getLevel(Accumulation mode) {
  switch (mode) {
  case Accumulation::sharded:
    return SumLevel::all;
  case Accumulation::node:
  case Accumulation::node_host:
    return SumLevel::node;
  case Accumulation::full:
    return SumLevel::none;
  }
  llvm_unreachable("unknown accumulation");
}

SumPolicy::SumPolicy(const SumDecision &decision) {
  Accumulation mode = getMode(decision);
  level = getLevel(mode);
  state = getState(mode);
  if (!decision.isTrainable)
    return;
  for (size_t i = 0; i < actions.size(); ++i) {
    Role role = static_cast<Role>(i);
    if (!isMicrobatch(role))
      continue;
    SumActions &row = actions[i];
    row.reducesWithin = level != SumLevel::none || isLastOfStep(role);
    row.reducesBetween = level == SumLevel::all || isLastOfStep(role);
    row.adds = !isFirstOfStep(role);
    // The optimizer reads reduced gradients from their state.
    row.keeps = level == SumLevel::all || !isLastOfStep(role);
  }
}
