// SPDX-License-Identifier: Apache-2.0
//
// Matches the forward pass from log-probabilities back to the product.

#include "Shard/LossMatcher.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

bool LogitChain::isSliced() const {
  return llvm::any_of(shapes, [](CallOp call) {
    return call.getCallee() == "aten.slice.Tensor";
  });
}

/// Returns whether the call is a log-softmax over the classes of rows.
bool LossMatcher::isLogSoftmax(CallOp softmax) {
  auto half = dyn_cast_or_null<BoolAttr>(softmax.getArgument("half_to_float"));
  const int64_t rank = typeOf(softmax.getResult(0)).getRank();
  return rank >= 2 && isLastDim(softmax, rank) && half && !half.getValue();
}

bool LossMatcher::matchLogProbs() {
  auto softmax = getCall(logProbs, "aten._log_softmax.default");
  if (!softmax)
    return fail("its input is no log-softmax");
  take(softmax);
  head.logProbs = typeOf(logProbs);
  if (!isLogSoftmax(softmax) ||
      !typeOf(head.labels).getElementType().isInteger(64))
    return fail("its log-softmax is not over the classes of a matrix");
  lossType = head.logProbs.getElementType();
  return matchLogits(getOperand(softmax, "self"));
}

/// Returns whether the call copies a tensor as it is.
static bool isCopy(CallOp call) {
  return call.getCallee() == "aten.clone.default" && call.getNumOperands() == 1;
}

/// Goes from a softmax back through steps and views. Returns the value from
/// which they begin: the result of a product, in general.
Value LossMatcher::followLogits(Value logits, LogitChain &chain,
                                bool stopsAtUsers) {
  const int64_t vocabulary = typeOf(logits).getShape().back();
  bool isF32 = false;
  while (auto call = logits.getDefiningOp<CallOp>()) {
    RankedTensorType type = typeOf(logits);
    if (type.getRank() == 0 || type.getShape().back() != vocabulary ||
        call.getNumOperands() != 1 || (stopsAtUsers && !logits.hasOneUse()))
      break;
    StringRef scaling = getScaling(call);
    std::optional<double> factor = getFactor(call);
    std::optional<Slice> slice = readSlice(call, typeOf(call.getOperand(0)));
    if (!scaling.empty() && factor) {
      chain.steps.push_back(scaling);
      chain.factors.push_back(*factor);
    } else if (call.getCallee() == "aten.tanh.default" && !chain.tanh) {
      chain.steps.push_back("tanh");
      chain.tanh = logits;
    } else if (isCastTo(call, Float32Type::get(call.getContext())) && !isF32 &&
               !typeOf(call.getOperand(0)).getElementType().isF64()) {
      chain.steps.push_back("cast");
      isF32 = true;
    } else if (isReshape(call) || isCopy(call) ||
               (slice && slice->dim != type.getRank() - 1)) {
      chain.shapes.push_back(call);
    } else {
      break;
    }
    chain.path.push_back(take(call));
    logits = call.getOperand(0);
  }
  std::reverse(chain.steps.begin(), chain.steps.end());
  std::reverse(chain.factors.begin(), chain.factors.end());
  std::reverse(chain.shapes.begin(), chain.shapes.end());
  std::reverse(chain.path.begin(), chain.path.end());
  return logits;
}

static CallOp getProduct(Value value) {
  CallOp call = getCall(value, "aten.mm.default");
  return call ? call : getCall(value, "aten.addmm.default");
}

bool LossMatcher::failForLogits(Value logits) {
  auto call = logits ? logits.getDefiningOp<CallOp>() : CallOp();
  if (!call)
    return fail("its logits are not the result of a product");
  return fail("'" + call.getCallee() + "' computes its logits");
}

/// Goes from the log-softmax back to the product.
bool LossMatcher::matchLogits(Value logits) {
  if (logits)
    logits = followLogits(logits, head.logits);
  CallOp product = getProduct(logits);
  return product ? matchProduct(product) : failForLogits(logits);
}

/// Returns the log-softmax, besides the cross entropy's, whose input is
/// computed from the product, or null.
CallOp LossMatcher::findComparison() {
  SmallVector<Value> reached = {head.product};
  while (!reached.empty())
    for (Operation *user : reached.pop_back_val().getUsers()) {
      auto call = dyn_cast<CallOp>(user);
      if (!call || call.getNumOperands() != 1)
        continue;
      if (call.getCallee() == "aten._log_softmax.default" &&
          !head.calls.contains(call))
        return call;
      if (isReshape(call) || isCopy(call) || !getScaling(call).empty() ||
          call.getCallee() == "aten.tanh.default" ||
          call.getCallee() == "aten._to_copy.default" ||
          call.getCallee() == "aten.slice.Tensor")
        reached.push_back(call.getResult(0));
    }
  return {};
}

bool LossMatcher::matchProduct(CallOp product) {
  head.product = take(product).getResult(0);
  Projection projection = readProjection(product);
  head.hidden = projection.hidden;
  head.weight = projection.weight;
  head.bias = projection.bias;
  if (!head.weight)
    return fail("its projection is not by a transposed matrix");
  if (projection.isScaled)
    return fail("its bias or its product has a factor");
  modelType = typeOf(head.hidden).getElementType();
  const bool fitsBias =
      !head.bias || typeOf(head.bias) == RankedTensorType::get(
                                             {head.getVocabulary()}, modelType);
  const bool isStatic = typeOf(head.hidden).hasStaticShape() &&
                        typeOf(head.weight).hasStaticShape() &&
                        head.logProbs.hasStaticShape();
  if (!(modelType.isF16() || modelType.isBF16() || modelType.isF32() ||
        modelType.isF64()) ||
      typeOf(head.weight).getElementType() != modelType || !fitsBias ||
      !isStatic || head.getRows() == 0 || head.getVocabulary() == 0 ||
      head.logProbs.getShape().back() != head.getVocabulary())
    return fail("its projection is not of rows of floats, with one bias for "
                "each class");
  return true;
}
