// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/StepFunctions.h"

using namespace mlir;
using namespace fcdp;

Role fcdp::getRole(func::FuncOp function) { return *findRole(function); }

int64_t fcdp::getVariant(func::FuncOp function) {
  return findVariant(function).value_or(0);
}

Member fcdp::getMember(func::FuncOp function) {
  return {getRole(function), getVariant(function)};
}

std::string fcdp::getFunctionName(Member member, int64_t variants) {
  std::string name = stringifyRole(member.role).str();
  if (variants > 1 && isMicrobatch(member.role))
    name += "." + std::to_string(member.variant);
  return name;
}

int64_t fcdp::countVariants(ModuleOp module) {
  int64_t last = 0;
  for (auto function : module.getOps<func::FuncOp>())
    last = std::max(last, getVariant(function));
  return last + 1;
}

bool fcdp::isOfVariant(func::FuncOp function, int64_t variant) {
  return findVariant(function).value_or(variant) == variant;
}

bool fcdp::hasMemory(InputOp input, int64_t variants) {
  auto variant = static_cast<int64_t>(input.getVariant().value_or(0));
  return input.getEvaluation() || variant == variants - 1;
}

func::FuncOp fcdp::findFunction(ModuleOp module, Role role) {
  for (auto function : module.getOps<func::FuncOp>())
    if (findRole(function) == role)
      return function;
  return {};
}

bool fcdp::hasEvaluation(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    std::optional<Role> role = findRole(function);
    return role && isEvaluation(*role);
  });
}

SmallVector<func::FuncOp> fcdp::findPredecessors(func::FuncOp function) {
  SmallVector<func::FuncOp> found;
  Member member = getMember(function);
  for (auto before :
       function->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (mayFollow(getMember(before), member))
      found.push_back(before);
  return found;
}
