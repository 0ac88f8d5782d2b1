// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/StepFunctions.h"

using namespace mlir;
using namespace fcdp;

Role fcdp::getRole(func::FuncOp function) { return *findRole(function); }

SmallVector<func::FuncOp> fcdp::findPredecessors(func::FuncOp function) {
  SmallVector<func::FuncOp> found;
  Role role = getRole(function);
  for (auto before :
       function->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (llvm::is_contained(getSuccessors(getRole(before)), role))
      found.push_back(before);
  return found;
}
