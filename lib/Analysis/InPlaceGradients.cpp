// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/InPlaceGradients.h"

#include "dialects/Aten/OpTable.h"
#include "fcdp/Analysis/FunctionBoundaries.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The call that may write a gradient in place, or the reason why there is
/// none. The reason follows the name of the operator if `callee` is set.
struct Producer {
  aten::CallOp call;
  StringRef reason = {}, callee = {};
};
} // namespace

/// Finds the call with an out-variant that computes `value`, which no other
/// operation may read.
static Producer findProducer(Value value) {
  bool isTransposed = false;
  while (value.hasOneUse()) {
    auto call = value.getDefiningOp<aten::CallOp>();
    if (!call)
      return {{}, "no operator makes them"};
    if (call->getNumResults() != 1)
      return {{}, "makes several results", call.getCallee()};
    StringRef callee = call.getCallee();
    if (callee == "aten.t.default") {
      isTransposed = !isTransposed;
    } else if (callee == "aten.view.default" ||
               callee == "aten._unsafe_view.default") {
      if (isTransposed)
        return {{}, "they are made transposed"};
    } else if (isTransposed) {
      return {{}, "they are made transposed"};
    } else if (aten::lookupOut(callee).empty()) {
      return {{}, "cannot write to given memory", callee};
    } else {
      return {call};
    }
    value = call->getOperand(0);
  }
  return {{}, "something else reads them"};
}

/// Returns the reason why none of `pack`'s gradients can be written in place,
/// or an empty string.
static StringRef findReasonToCopyAll(PackOp pack) {
  if (llvm::any_of(pack->getUsers(), llvm::IsaPred<AccumulateOp>))
    return "they are packed into the memory of their sum";
  // Late accumulates of the function before may use its memory.
  if (findInFlightRelease(pack))
    return "their bucket is in flight when the function ends";
  return {};
}

static bool isReducedAsItIs(PackOp pack, Value gradient) {
  return gradient.getType() == pack.getPackedType(gradient);
}

std::string fcdp::findReasonToCopy(PackOp pack, Value gradient) {
  if (StringRef reason = findReasonToCopyAll(pack); !reason.empty())
    return reason.str();
  if (!isReducedAsItIs(pack, gradient))
    return "they are reduced in another type";
  Producer producer = findProducer(gradient);
  if (producer.callee.empty())
    return producer.reason.str();
  return (producer.callee + " " + producer.reason).str();
}

SmallVector<InPlaceGradient> fcdp::findInPlaceGradients(PackOp pack) {
  SmallVector<InPlaceGradient> gradients;
  if (!findReasonToCopyAll(pack).empty())
    return gradients;
  for (auto [value, parameter] :
       llvm::zip_equal(pack.getValues(),
                       pack.getParameters().getAsRange<FlatSymbolRefAttr>()))
    if (aten::CallOp producer = findProducer(value).call;
        producer && isReducedAsItIs(pack, value))
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
