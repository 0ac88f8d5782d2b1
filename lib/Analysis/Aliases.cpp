// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Aliases.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fcdp;

bool fcdp::isView(Operation *op) {
  if (isa<ViewMemberOp>(op))
    return true;
  auto call = dyn_cast<aten::CallOp>(op);
  return call && call->getNumOperands() == 1 &&
         aten::lookupOp(call.getCallee()).aliasing == aten::Aliasing::View;
}

bool fcdp::mayAlias(Operation *op) {
  if (isa<ViewMemberOp>(op))
    return true;
  auto call = dyn_cast<aten::CallOp>(op);
  return call &&
         aten::lookupOp(call.getCallee()).aliasing != aten::Aliasing::Fresh;
}

SmallVector<Operation *> fcdp::collectMemoryUsers(Value value) {
  llvm::SetVector<Operation *> users;
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers())
      if (users.insert(user) && mayAlias(user))
        llvm::append_range(worklist, user->getResults());
  return users.takeVector();
}

Operation *fcdp::findLastMemoryUser(Value value) {
  Operation *last = value.getDefiningOp();
  for (Operation *user : collectMemoryUsers(value))
    if (last->isBeforeInBlock(user))
      last = user;
  return last;
}
