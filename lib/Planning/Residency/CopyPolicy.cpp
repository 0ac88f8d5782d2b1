// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/CopyPolicy.h"

using namespace fcdp;

static bool isStored(Residency residency) {
  return getTier(residency).filledBy == CopyFill::store;
}

CopyPolicy::CopyPolicy(const CopyDecision &decision) {
  bool isCarried = !decision.isTrainable || decision.hasSeveral;
  Residency carry = isCarried ? decision.carry : Residency::drop;
  within = getResidencyWithin(decision.residency, decision.carry, isCarried);
  state = carry;
  // A slice that is stored for the uses of one micro-batch is in a state, too.
  // Each micro-batch, and the first function that runs between steps, fills it
  // again.
  isInMicrobatch = state == Residency::drop && isStored(within);
  bool isKept = decision.isUsedAgain || decision.isReference;
  if (isInMicrobatch && (isKept || decision.runsBetweenSteps))
    state = within;

  auto isFilledBy = [&](Role role) {
    if (state == Residency::drop)
      return false;
    if (runsBetweenSteps(role))
      return findsStaleCopies(role) && (decision.isTrainable || isInMicrobatch);
    if (isInMicrobatch)
      return isMicrobatch(role) && isKept;
    return role == (decision.isTrainable ? Role::first_microbatch : Role::init);
  };
  for (size_t i = 0; i < actions.size(); ++i) {
    Role role = static_cast<Role>(i);
    CopyActions &row = actions[i];
    row.fillsState = isFilledBy(role);
    if (!runsModel(role))
      continue;
    // A trained parameter has changed since the step before.
    bool isStale = decision.isTrainable && findsStaleCopies(role);
    row.first = isStale ? Residency::drop : carry;
    if (isInMicrobatch && runsBetweenSteps(role) && !findsStaleCopies(role))
      row.first = within;
    row.later = within;
    // The slice is still stored.
    if (row.later == Residency::drop && isStored(row.first))
      row.later = row.first;
  }
}

int64_t CopyPolicy::countNetworkGathers(int64_t microBatches,
                                        int64_t uses) const {
  int64_t count = 0;
  for (Role role : StepFamily(microBatches).getStep()) {
    if (!isMicrobatch(role) || uses == 0)
      continue;
    count += get(role).first == Residency::drop;
    count += get(role).later == Residency::drop ? uses - 1 : 0;
  }
  return count;
}
