// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/StepFunctions.h"

using namespace mlir;
using namespace fcdp;

Role fcdp::getRole(func::FuncOp function) { return *findRole(function); }

bool fcdp::hasEvaluation(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    std::optional<Role> role = findRole(function);
    return role && isEvaluation(*role);
  });
}

SmallVector<func::FuncOp> fcdp::findPredecessors(func::FuncOp function) {
  SmallVector<func::FuncOp> found;
  Role role = getRole(function);
  for (auto before :
       function->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (llvm::is_contained(getSuccessors(getRole(before)), role))
      found.push_back(before);
  return found;
}
