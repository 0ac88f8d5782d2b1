// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/InPlaceGradients.h"

#include "dialects/Aten/OpTable.h"
#include "fcdp/Analysis/FunctionBoundaries.h"

using namespace mlir;
using namespace fcdp;

/// The call with an out-variant that makes `value`, or null if there is none or
/// something else sees what it makes.
static aten::CallOp findProducer(Value value) {
  bool isTransposed = false;
  while (value.hasOneUse()) {
    auto call = value.getDefiningOp<aten::CallOp>();
    if (!call || call->getNumResults() != 1)
      return {};
    StringRef callee = call.getCallee();
    if (callee == "aten.t.default") {
      isTransposed = !isTransposed;
    } else if (callee == "aten.view.default" ||
               callee == "aten._unsafe_view.default") {
      if (isTransposed)
        return {};
    } else {
      bool isProducer = !isTransposed && !aten::lookupOut(callee).empty();
      return isProducer ? call : aten::CallOp();
    }
    value = call->getOperand(0);
  }
  return {};
}

SmallVector<InPlaceGradient> fcdp::findInPlaceGradients(PackOp pack) {
  SmallVector<InPlaceGradient> gradients;
  if (llvm::any_of(pack->getUsers(), llvm::IsaPred<AccumulateOp>))
    return gradients; // the sum's memory
  if (findInFlightRelease(pack))
    return gradients; // late accumulates of the function before may use its
                      // memory
  for (auto [value, parameter] :
       llvm::zip_equal(pack.getValues(),
                       pack.getParameters().getAsRange<FlatSymbolRefAttr>()))
    if (aten::CallOp producer = findProducer(value))
      gradients.push_back({producer, parameter});
  return gradients;
}

SmallVector<InPlaceGradient> fcdp::getInPlaceGradients(PackOp pack) {
  ArrayAttr chosen = pack.getInPlaceAttr();
  if (!chosen || chosen.empty())
    return {};
  SmallVector<InPlaceGradient> gradients = findInPlaceGradients(pack);
  llvm::erase_if(gradients, [&](const InPlaceGradient &gradient) {
    return !llvm::is_contained(chosen, gradient.parameter);
  });
  return gradients;
}

Operation *fcdp::getFirstWriter(Operation *op) {
  Operation *first = op;
  if (auto pack = dyn_cast<PackOp>(op))
    for (const InPlaceGradient &gradient : getInPlaceGradients(pack))
      if (gradient.producer->isBeforeInBlock(first))
        first = gradient.producer;
  return first;
}

llvm::DenseMap<Operation *, PackOp>
fcdp::collectInPlaceProducers(Operation *function) {
  llvm::DenseMap<Operation *, PackOp> producers;
  function->walk([&](PackOp pack) {
    for (const InPlaceGradient &gradient : getInPlaceGradients(pack))
      producers[gradient.producer] = pack;
  });
  return producers;
}
