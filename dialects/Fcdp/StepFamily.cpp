// SPDX-License-Identifier: Apache-2.0

#include "dialects/Fcdp/StepFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace fcdp;

bool fcdp::isMicrobatch(Role role) {
  switch (role) {
  case Role::only_microbatch:
  case Role::first_microbatch:
  case Role::next_microbatch:
  case Role::last_microbatch:
  case Role::only_outer_microbatch:
  case Role::last_outer_microbatch:
    return true;
  case Role::init:
  case Role::update:
  case Role::first_evaluation:
  case Role::next_evaluation:
  case Role::outer_update:
    return false;
  }
  llvm_unreachable("unknown role");
}

bool fcdp::isEvaluation(Role role) {
  return role == Role::first_evaluation || role == Role::next_evaluation;
}

bool fcdp::runsModel(Role role) {
  return isMicrobatch(role) || isEvaluation(role);
}

bool fcdp::isOuter(Role role) {
  return role == Role::outer_update || role == Role::only_outer_microbatch ||
         role == Role::last_outer_microbatch;
}

Role fcdp::getInnerRole(Role role) {
  switch (role) {
  case Role::only_outer_microbatch:
    return Role::only_microbatch;
  case Role::last_outer_microbatch:
    return Role::last_microbatch;
  default:
    return role;
  }
}

bool fcdp::isFirstOfStep(Role role) {
  Role inner = getInnerRole(role);
  return inner == Role::only_microbatch || inner == Role::first_microbatch;
}

bool fcdp::isLastOfStep(Role role) {
  Role inner = getInnerRole(role);
  return inner == Role::only_microbatch || inner == Role::last_microbatch;
}

bool fcdp::findsStaleCopies(Role role) {
  return isFirstOfStep(role) || role == Role::first_evaluation;
}

bool fcdp::runsBetweenSteps(Role role) { return isEvaluation(role); }

bool fcdp::runsInSomeSteps(Role role) { return isOuter(role); }

bool fcdp::isNumbered(Role role) { return isMicrobatch(role) || isOuter(role); }

bool fcdp::isSynchronized(Role role) {
  return isEvaluation(role) || role == Role::outer_update;
}

llvm::ArrayRef<Role> fcdp::getSuccessors(Role role) {
  static constexpr Role kBegin[] = {
      Role::only_microbatch, Role::first_microbatch, Role::first_evaluation,
      Role::only_outer_microbatch};
  static constexpr Role kAgain[] = {Role::next_microbatch,
                                    Role::last_microbatch,
                                    Role::last_outer_microbatch};
  static constexpr Role kEnd[] = {Role::update};
  static constexpr Role kUpdated[] = {
      Role::only_microbatch, Role::first_microbatch, Role::first_evaluation,
      Role::outer_update, Role::only_outer_microbatch};
  static constexpr Role kEvaluated[] = {
      Role::next_evaluation, Role::only_microbatch, Role::first_microbatch,
      Role::first_evaluation, Role::only_outer_microbatch};
  switch (role) {
  case Role::init:
    return kBegin;
  case Role::update:
  case Role::outer_update:
    return kUpdated;
  case Role::first_microbatch:
  case Role::next_microbatch:
    return kAgain;
  case Role::only_microbatch:
  case Role::last_microbatch:
  case Role::only_outer_microbatch:
  case Role::last_outer_microbatch:
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

int64_t FamilyMember::getStep() const { return isOuter(role) ? 0 : number; }

bool fcdp::mayFollow(FamilyMember before, FamilyMember after) {
  bool isWithinStep = isMicrobatch(before.role) && isMicrobatch(after.role);
  return llvm::is_contained(getSuccessors(before.role), after.role) &&
         (!isWithinStep || before.getStep() == after.getStep());
}

FunctionBoundary fcdp::getBoundaryBehind(FamilyMember which) {
  Role after = getSuccessors(which.role).front();
  bool isWithinStep = isMicrobatch(which.role) && isMicrobatch(after);
  return {after, isWithinStep ? which.getStep() : 0};
}

FunctionBoundary fcdp::getBoundaryBefore(FamilyMember which) {
  bool isWithinStep = isMicrobatch(which.role) && !isFirstOfStep(which.role);
  return {getBoundary(which.role), isWithinStep ? which.getStep() : 0};
}

llvm::SmallVector<Role> StepFamily::getRoles() const {
  llvm::SmallVector<Role> roles{Role::init};
  if (microBatches == 1)
    roles.push_back(Role::only_microbatch);
  else
    roles.append(
        {Role::first_microbatch, Role::next_microbatch, Role::last_microbatch});
  roles.push_back(Role::update);
  if (evaluates)
    roles.append({Role::first_evaluation, Role::next_evaluation});
  if (fragments > 0)
    roles.push_back(!overlapsOuter      ? Role::outer_update
                    : microBatches == 1 ? Role::only_outer_microbatch
                                        : Role::last_outer_microbatch);
  return roles;
}

llvm::SmallVector<FamilyMember> StepFamily::getMembers() const {
  llvm::SmallVector<Role> all = getRoles();
  llvm::SmallVector<Role> batches(llvm::make_filter_range(
      all, [](Role role) { return isMicrobatch(role) && !isOuter(role); }));
  llvm::SmallVector<FamilyMember> roles;
  for (Role role : all) {
    if (isOuter(role))
      for (int64_t fragment = 0; fragment < fragments; ++fragment)
        roles.push_back({role, fragment});
    else if (!isMicrobatch(role))
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

llvm::SmallVector<Role>
StepFamily::getStep(llvm::function_ref<bool(Role)> runs) const {
  llvm::SmallVector<Role> step = getStep();
  for (size_t i = 0; i <= getMaxEnumValForRole(); ++i) {
    auto role = static_cast<Role>(i);
    if (!runsInSomeSteps(role) || !runs(role))
      continue;
    if (isMicrobatch(role))
      llvm::replace(step, getInnerRole(role), role);
    else
      step.push_back(role);
  }
  return step;
}

int64_t StepFamily::countRuns(Role role) const {
  if (role == Role::init || isSynchronized(role) || isOuter(role) ||
      !llvm::is_contained(getRoles(), role))
    return 0;
  return role == Role::next_microbatch ? microBatches - 2 : 1;
}

std::string StepFamily::describe() const {
  std::string text = "@init, @update, ";
  text += microBatches == 1
              ? "@only_microbatch"
              : "@first_microbatch, @next_microbatch and @last_microbatch";
  if (variants > 1)
    text += " of each variant";
  text += ", and both or none of @first_evaluation and @next_evaluation, as "
          "'fcdp.micro_batches' is " +
          std::to_string(microBatches);
  if (fragments == 0)
    return text;
  text += !overlapsOuter      ? "; and @outer_update"
          : microBatches == 1 ? "; and @only_outer_microbatch"
                              : "; and @last_outer_microbatch";
  return text + " of each fragment of 'fcdp.outer'";
}
