// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/LiveRanges.h"

#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Casts.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The parameter that a value is a view of.
struct Shown {
  ParameterOp parameter;
  /// The type that all reads cast the parameter to, null after the cast or if
  /// they do not agree on one.
  FloatType castType;
};
} // namespace

/// Maps each value that is a view of a parameter to it, and collects the
/// operations between them.
static llvm::DenseMap<Value, Shown>
findShown(Operation *function, SymbolTableCollection &symbols,
          llvm::DenseSet<Operation *> &views) {
  llvm::DenseMap<Value, Shown> shown;
  function->walk([&](Operation *op) {
    if (auto read = dyn_cast<ReadParameterOp>(op)) {
      auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(
          read, read.getSourceAttr());
      shown[read.getResult()] = {parameter,
                                 findNarrowReadType(read.getResult())};
      return;
    }
    if (op->getNumOperands() != 1)
      return;
    auto source = shown.find(op->getOperand(0));
    if (source == shown.end())
      return;
    Shown result = source->second;
    if (!isView(op)) {
      if (!result.castType || getCastType(op) != result.castType)
        return;
      result.castType = {};
    }
    views.insert(op);
    for (Value value : op->getResults())
      shown[value] = result;
  });
  return shown;
}

LiveRanges fcdp::findLiveRanges(Operation *function,
                                SymbolTableCollection &symbols, RangeEnd end) {
  LiveRanges ranges;
  llvm::DenseMap<Value, Shown> shown =
      findShown(function, symbols, ranges.views);
  LiveRangeCounter counter;
  int64_t last = -1;
  bool wasRepeated = false;
  llvm::DenseMap<StringAttr, int64_t> rangesOfUnit;
  function->walk([&](Operation *op) {
    if (ranges.views.contains(op))
      return;
    for (OpOperand &operand : op->getOpOperands()) {
      ParameterOp parameter = shown.lookup(operand.get()).parameter;
      if (!parameter)
        continue;
      if (end == RangeEnd::Recomputation && wasRepeated && !isRepeated(op))
        counter.end();
      wasRepeated = isRepeated(op);
      StringAttr unit = parameter.getUnitAttr();
      if (int64_t range = counter.add(unit); range != last) {
        ++rangesOfUnit[unit];
        last = range;
      }
      ranges.uses.push_back({parameter, &operand, rangesOfUnit[unit] - 1});
    }
  });
  return ranges;
}
