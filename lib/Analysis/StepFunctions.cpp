// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/StepFunctions.h"

#include <map>

using namespace mlir;
using namespace fcdp;

Role fcdp::getRole(func::FuncOp function) { return *findRole(function); }

int64_t fcdp::getNumber(func::FuncOp function) {
  return findVariant(function).value_or(0);
}

FamilyMember fcdp::getMember(func::FuncOp function) {
  return {getRole(function), getNumber(function)};
}

void fcdp::setMember(func::FuncOp function, FamilyMember which, int64_t count) {
  function.setName(getFunctionName(which, count));
  setRole(function, which.role);
  if (count > 1 && isNumbered(which.role))
    setVariant(function, which.number);
}

StepFamily fcdp::getFamily(ModuleOp module) {
  OuterAttr outer = getOuter(module);
  return StepFamily(getMicroBatches(module), runsBetweenSteps(module),
                    countVariants(module), countFragments(module),
                    outer && outer.getOverlap());
}

std::string fcdp::getFunctionName(FamilyMember which, int64_t count) {
  std::string name = stringifyRole(which.role).str();
  if (count > 1 && isNumbered(which.role))
    name += "." + std::to_string(which.number);
  return name;
}

int64_t fcdp::countVariants(ModuleOp module) {
  int64_t last = 0;
  for (auto function : module.getOps<func::FuncOp>())
    if (std::optional<Role> role = findRole(function); !role || !isOuter(*role))
      last = std::max(last, getNumber(function));
  return last + 1;
}

bool fcdp::isOfVariant(func::FuncOp function, int64_t variant) {
  std::optional<Role> role = findRole(function);
  return (role && isOuter(*role)) ||
         findVariant(function).value_or(variant) == variant;
}

SmallVector<func::FuncOp> fcdp::getFunctionsOf(ModuleOp module,
                                               std::optional<int64_t> variant) {
  int64_t chosen = variant.value_or(countVariants(module) - 1);
  return llvm::filter_to_vector(
      module.getOps<func::FuncOp>(),
      [&](func::FuncOp function) { return isOfVariant(function, chosen); });
}

SmallVector<func::FuncOp> fcdp::getFirstMicrobatches(ModuleOp module) {
  return llvm::filter_to_vector(
      getFunctionsOf(module), [](func::FuncOp function) {
        Role role = getRole(function);
        return isFirstOfStep(role) && !runsInSomeSteps(role);
      });
}

SmallVector<StepMicrobatches> fcdp::getSteps(ModuleOp module) {
  std::map<int64_t, StepMicrobatches> steps;
  for (auto function : module.getOps<func::FuncOp>()) {
    FamilyMember which = getMember(function);
    bool isFirst = isFirstOfStep(which.role), isLast = isLastOfStep(which.role);
    if (!isMicrobatch(which.role) || (isFirst && isLast))
      continue;
    StepMicrobatches &step = steps[which.getStep()];
    if (isLast)
      step.last.push_back(function);
    else
      (isFirst ? step.first : step.next) = function;
  }
  return llvm::to_vector(llvm::make_second_range(steps));
}

SmallVector<InputOp> fcdp::getInputsWithMemory(ModuleOp module) {
  int64_t greatest = countVariants(module) - 1;
  return llvm::filter_to_vector(module.getOps<InputOp>(), [&](InputOp input) {
    return input.getEvaluation() ||
           static_cast<int64_t>(input.getVariant().value_or(0)) == greatest;
  });
}

bool fcdp::updatesInSomeSteps(Operation *op) { return isa<OuterUpdateOp>(op); }

double fcdp::getShareOfSteps(func::FuncOp function) {
  OuterAttr outer = getOuter(function->getParentOfType<ModuleOp>());
  return 1 / static_cast<double>(outer.getEvery());
}

func::FuncOp fcdp::findFunction(ModuleOp module, Role role) {
  for (auto function : module.getOps<func::FuncOp>())
    if (findRole(function) == role)
      return function;
  return {};
}

bool fcdp::runsBetweenSteps(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    std::optional<Role> role = findRole(function);
    return role && runsBetweenSteps(*role);
  });
}

SmallVector<func::FuncOp> fcdp::findPredecessors(func::FuncOp function) {
  SmallVector<func::FuncOp> found;
  FamilyMember which = getMember(function);
  for (auto before :
       function->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (mayFollow(getMember(before), which))
      found.push_back(before);
  return found;
}
