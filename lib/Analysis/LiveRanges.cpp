// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/LiveRanges.h"

#include "fcdp/Analysis/Aliases.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace fcdp;

/// Gives the parameter whose memory each value is, as far as views go.
static llvm::DenseMap<Value, ParameterOp>
mapValuesToParameters(Operation *function, SymbolTableCollection &symbols) {
  llvm::DenseMap<Value, ParameterOp> parameters;
  function->walk([&](Operation *op) {
    if (auto read = dyn_cast<ReadParameterOp>(op))
      parameters[read.getResult()] =
          symbols.lookupNearestSymbolFrom<ParameterOp>(read,
                                                       read.getSourceAttr());
    else if (isView(op))
      if (ParameterOp parameter = parameters.lookup(op->getOperand(0)))
        for (Value result : op->getResults())
          parameters[result] = parameter;
  });
  return parameters;
}

SmallVector<ParameterUse> fcdp::findLiveRanges(Operation *function,
                                               SymbolTableCollection &symbols) {
  llvm::DenseMap<Value, ParameterOp> parameters =
      mapValuesToParameters(function, symbols);
  SmallVector<ParameterUse> uses;
  llvm::DenseMap<StringAttr, int64_t> rangesOfUnit;
  StringAttr current;
  function->walk([&](Operation *op) {
    if (isView(op))
      return;
    for (OpOperand &operand : op->getOpOperands()) {
      ParameterOp parameter = parameters.lookup(operand.get());
      if (!parameter)
        continue;
      StringAttr unit = parameter.getUnitAttr();
      if (unit != current)
        ++rangesOfUnit[unit];
      current = unit;
      uses.push_back({parameter, &operand, rangesOfUnit[unit] - 1});
    }
  });
  return uses;
}
