// SPDX-License-Identifier: Apache-2.0

#include "dialects/Fcdp/StepFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace fcdp;

bool fcdp::isMicrobatch(Role role) {
  return role != Role::init && role != Role::update && !isEvaluation(role);
}

bool fcdp::isEvaluation(Role role) {
  return role == Role::first_evaluation || role == Role::next_evaluation;
}

bool fcdp::runsModel(Role role) {
  return isMicrobatch(role) || isEvaluation(role);
}

bool fcdp::isFirstOfStep(Role role) {
  return role == Role::only_microbatch || role == Role::first_microbatch;
}

bool fcdp::isLastOfStep(Role role) {
  return role == Role::only_microbatch || role == Role::last_microbatch;
}

llvm::ArrayRef<Role> fcdp::getSuccessors(Role role) {
  static constexpr Role kBegin[] = {
      Role::only_microbatch, Role::first_microbatch, Role::first_evaluation};
  static constexpr Role kAgain[] = {Role::next_microbatch,
                                    Role::last_microbatch};
  static constexpr Role kEnd[] = {Role::update};
  static constexpr Role kEvaluated[] = {
      Role::next_evaluation, Role::only_microbatch, Role::first_microbatch,
      Role::first_evaluation};
  switch (role) {
  case Role::init:
  case Role::update:
    return kBegin;
  case Role::first_microbatch:
  case Role::next_microbatch:
    return kAgain;
  case Role::only_microbatch:
  case Role::last_microbatch:
    return kEnd;
  case Role::first_evaluation:
  case Role::next_evaluation:
    return kEvaluated;
  }
  llvm_unreachable("unknown role");
}

Role fcdp::getBoundary(Role role) {
  for (size_t i = 0; i <= getMaxEnumValForRole(); ++i)
    if (llvm::ArrayRef<Role> after = getSuccessors(static_cast<Role>(i));
        llvm::is_contained(after, role))
      return after.front();
  return role;
}

bool fcdp::mayFollow(VariantRole before, VariantRole after) {
  bool isWithinStep = isMicrobatch(before.role) && isMicrobatch(after.role);
  return llvm::is_contained(getSuccessors(before.role), after.role) &&
         (!isWithinStep || before.variant == after.variant);
}

FunctionBoundary fcdp::getBoundaryBehind(VariantRole which) {
  Role after = getSuccessors(which.role).front();
  bool isWithinStep = isMicrobatch(which.role) && isMicrobatch(after);
  return {after, isWithinStep ? which.variant : 0};
}

FunctionBoundary fcdp::getBoundaryBefore(VariantRole which) {
  bool isWithinStep = isMicrobatch(which.role) && !isFirstOfStep(which.role);
  return {getBoundary(which.role), isWithinStep ? which.variant : 0};
}

llvm::ArrayRef<Role> StepFamily::getRoles() const {
  static constexpr Role kOne[] = {Role::init, Role::only_microbatch,
                                  Role::update, Role::first_evaluation,
                                  Role::next_evaluation};
  static constexpr Role kSeveral[] = {Role::init,
                                      Role::first_microbatch,
                                      Role::next_microbatch,
                                      Role::last_microbatch,
                                      Role::update,
                                      Role::first_evaluation,
                                      Role::next_evaluation};
  constexpr size_t evaluations = 2;
  llvm::ArrayRef<Role> roles =
      microBatches == 1 ? llvm::ArrayRef(kOne) : llvm::ArrayRef(kSeveral);
  return roles.drop_back(evaluates ? 0 : evaluations);
}

llvm::SmallVector<VariantRole> StepFamily::getVariantRoles() const {
  llvm::SmallVector<Role> batches(
      llvm::make_filter_range(getRoles(), isMicrobatch));
  llvm::SmallVector<VariantRole> roles;
  for (Role role : getRoles()) {
    if (!isMicrobatch(role))
      roles.push_back({role});
    if (role != batches.front())
      continue;
    for (int64_t variant = 0; variant < variants; ++variant)
      for (Role batch : batches)
        roles.push_back({batch, variant});
  }
  return roles;
}

llvm::SmallVector<Role> StepFamily::getStep() const {
  llvm::SmallVector<Role> step;
  for (Role role : getRoles())
    step.append(countRuns(role), role);
  return step;
}

int64_t StepFamily::countRuns(Role role) const {
  if (role == Role::init || isEvaluation(role) ||
      !llvm::is_contained(getRoles(), role))
    return 0;
  return role == Role::next_microbatch ? microBatches - 2 : 1;
}
