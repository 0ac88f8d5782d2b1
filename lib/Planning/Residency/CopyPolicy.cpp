// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/CopyPolicy.h"

#include "llvm/Support/ErrorHandling.h"

using namespace fcdp;

static CopySource getSource(Residency residency) {
  switch (residency) {
  case Residency::full:
    return CopySource::copy;
  case Residency::node:
    return CopySource::slice;
  case Residency::host:
    return CopySource::host;
  case Residency::drop:
    return CopySource::network;
  }
  llvm_unreachable("unknown residency");
}

static CopyPlace getPlace(Residency residency) {
  switch (residency) {
  case Residency::full:
    return CopyPlace::deviceCopy;
  case Residency::node:
    return CopyPlace::deviceSlice;
  case Residency::host:
    return CopyPlace::hostSlice;
  case Residency::drop:
    return CopyPlace::none;
  }
  llvm_unreachable("unknown residency");
}

CopyPolicy::CopyPolicy(const CopyDecision &decision) {
  bool isCarried = !decision.isTrainable || decision.hasSeveral;
  Residency carry = isCarried ? decision.carry : Residency::drop;
  Residency residency =
      getResidencyWithin(decision.residency, decision.carry, isCarried);
  within = getPlace(residency);
  state = getPlace(carry);
  // A slice in host memory for the uses of one micro-batch is a state, too.
  // Each micro-batch, and the first batch of an evaluation, fills it again.
  isInMicrobatch = state == CopyPlace::none && within == CopyPlace::hostSlice;
  bool isKept = decision.isUsedAgain || decision.isReference;
  if (isInMicrobatch && (isKept || decision.isEvaluated))
    state = CopyPlace::hostSlice;

  auto isFilledBy = [&](Role role) {
    if (state == CopyPlace::none)
      return false;
    if (role == Role::first_evaluation)
      return decision.isTrainable || isInMicrobatch;
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
    bool isStale = decision.isTrainable &&
                   (isFirstOfStep(role) || role == Role::first_evaluation);
    row.first = isStale ? CopySource::network : getSource(carry);
    if (isInMicrobatch && role == Role::next_evaluation)
      row.first = CopySource::host;
    row.later = getSource(residency);
    // Host memory already has the slice.
    if (row.later == CopySource::network && row.first == CopySource::host)
      row.later = CopySource::host;
  }
}

int64_t CopyPolicy::countNetworkGathers(int64_t microBatches,
                                        int64_t uses) const {
  int64_t count = 0;
  for (Role role : StepFamily(microBatches).getStep()) {
    if (!isMicrobatch(role) || uses == 0)
      continue;
    count += get(role).first == CopySource::network;
    count += get(role).later == CopySource::network ? uses - 1 : 0;
  }
  return count;
}
