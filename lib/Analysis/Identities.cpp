// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Identities.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Aliases.h"

using namespace mlir;
using namespace fcdp;

/// Returns the parameter that a value is a view of, or null.
static FlatSymbolRefAttr findParameter(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto view = dyn_cast<ViewMemberOp>(op))
      return view.getParameterAttr();
    if (!isView(op))
      break;
    value = op->getOperand(0);
  }
  return {};
}

ArrayAttr fcdp::findParameterOperands(Operation *op) {
  if (!isa<aten::CallOp>(op) || isView(op))
    return {};
  Builder builder(op->getContext());
  SmallVector<Attribute> entries(op->getNumOperands(), builder.getUnitAttr());
  bool isAny = false;
  for (auto [entry, operand] : llvm::zip_equal(entries, op->getOperands()))
    if (FlatSymbolRefAttr parameter = findParameter(operand)) {
      entry = parameter;
      isAny = true;
    }
  return isAny ? builder.getArrayAttr(entries) : ArrayAttr();
}

void fcdp::noteIdentities(func::FuncOp function) {
  using Names = SmallVector<Attribute>;
  llvm::MapVector<Operation *, SmallVector<Names>> gradients;
  for (auto pack : function.getOps<PackOp>())
    for (auto [value, name] :
         llvm::zip_equal(pack.getValues(), pack.getParameters())) {
      auto result = dyn_cast<OpResult>(value);
      if (!result || !isa<aten::CallOp>(result.getOwner()) ||
          getGradientResults(result.getOwner()))
        continue;
      auto &names = gradients[result.getOwner()];
      names.resize(result.getOwner()->getNumResults());
      names[result.getResultNumber()].push_back(name);
    }
  Builder builder(function.getContext());
  for (auto &[op, results] : gradients)
    setGradientResults(op, builder.getArrayAttr(llvm::map_to_vector(
                               results, [&](const Names &names) -> Attribute {
                                 return builder.getArrayAttr(names);
                               })));
  for (Operation &op : function.front())
    if (ArrayAttr parameters = findParameterOperands(&op))
      if (!getParameterOperands(&op))
        setParameterOperands(&op, parameters);
}
