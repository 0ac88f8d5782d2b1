// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/StepFunctions.h"

using namespace mlir;
using namespace fcdp;

Role fcdp::getRole(func::FuncOp function) { return *findRole(function); }

int64_t fcdp::getVariant(func::FuncOp function) {
  return findVariant(function).value_or(0);
}

VariantRole fcdp::getVariantRole(func::FuncOp function) {
  return {getRole(function), getVariant(function)};
}

bool fcdp::hasVariants(Role role) {
  return isMicrobatch(role) || isOuter(role);
}

std::string fcdp::getFunctionName(VariantRole which, int64_t count) {
  std::string name = stringifyRole(which.role).str();
  if (count > 1 && hasVariants(which.role))
    name += "." + std::to_string(which.variant);
  return name;
}

int64_t fcdp::countVariants(ModuleOp module) {
  int64_t last = 0;
  for (auto function : module.getOps<func::FuncOp>())
    if (std::optional<Role> role = findRole(function); !role || !isOuter(*role))
      last = std::max(last, getVariant(function));
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
  VariantRole which = getVariantRole(function);
  for (auto before :
       function->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (mayFollow(getVariantRole(before), which))
      found.push_back(before);
  return found;
}
