// SPDX-License-Identifier: Apache-2.0

#include "Units.h"

#include "fcdp/Analysis/Aliases.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace fcdp;

/// Returns the longest of `units` that is `path` or a module around it, or
/// null.
static StringAttr findEnclosing(StringRef path,
                                const llvm::StringMap<StringAttr> &units) {
  while (!path.empty()) {
    if (StringAttr unit = units.lookup(path))
      return unit;
    size_t dot = path.rfind('.');
    path = dot == StringRef::npos ? StringRef() : path.take_front(dot);
  }
  return {};
}

llvm::DenseMap<Operation *, StringAttr>
fcdp::findUnits(Operation *end, const LiveRanges &ranges) {
  llvm::StringMap<StringAttr> units;
  for (auto parameter : end->getParentOfType<ModuleOp>().getOps<ParameterOp>())
    units[parameter.getUnit()] = parameter.getUnitAttr();
  // The unit whose parameters a call reads; null if there are several.
  llvm::DenseMap<Operation *, StringAttr> unitRead;
  for (const ParameterUse &use : ranges.uses) {
    StringAttr unit = ParameterOp(use.parameter).getUnitAttr();
    auto [known, isNew] = unitRead.insert({use.operand->getOwner(), unit});
    if (!isNew && known->second != unit)
      known->second = {};
  }
  auto find = [&](aten::CallOp call) -> StringAttr {
    if (auto name = call->getLoc()->findInstanceOf<NameLoc>())
      if (StringAttr unit = findEnclosing(name.getName(), units))
        return unit;
    return unitRead.lookup(call);
  };

  llvm::DenseMap<Operation *, StringAttr> found;
  StringAttr current;
  SmallVector<aten::CallOp> open;
  for (auto call : end->getBlock()->getOps<aten::CallOp>()) {
    if (end->isBeforeInBlock(call))
      break;
    StringAttr unit = find(call);
    if (!unit) {
      open.push_back(call);
      continue;
    }
    for (aten::CallOp between : open)
      if (current)
        found[between] = current;
    open.clear();
    found[call] = current = unit;
  }
  return found;
}

bool fcdp::isReadOutside(aten::CallOp call, Operation *end,
                         function_ref<bool(Operation *)> isInside) {
  SmallVector<Value> worklist(call->getResults());
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      user = end->getBlock()->findAncestorOpInBlock(*user);
      if (end->isBeforeInBlock(user))
        continue;
      if (isView(user))
        llvm::append_range(worklist, user->getResults());
      else if (!isInside(user))
        return true;
    }
  return false;
}
