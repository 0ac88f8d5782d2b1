// SPDX-License-Identifier: Apache-2.0
//
// Matches the forward pass from log-probabilities back to the product.

#include "Shard/LossMatcher.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

bool LossHead::isSliced() const {
  return llvm::any_of(shapes, [](CallOp call) {
    return call.getCallee() == "aten.slice.Tensor";
  });
}

bool LossMatcher::matchLogProbs() {
  auto softmax = getCall(logProbs, "aten._log_softmax.default");
  if (!softmax)
    return fail("its input is no log-softmax");
  take(softmax);
  auto half = dyn_cast_or_null<BoolAttr>(softmax.getArgument("half_to_float"));
  head.logProbs = typeOf(logProbs);
  if (head.logProbs.getRank() < 2 ||
      !isLastDim(softmax, head.logProbs.getRank()) || !half ||
      half.getValue() || !typeOf(head.labels).getElementType().isInteger(64))
    return fail("its log-softmax is not over the classes of a matrix");
  lossType = head.logProbs.getElementType();
  return matchLogits(getOperand(softmax, "self"));
}

/// Returns whether the call copies a tensor as it is.
static bool isCopy(CallOp call) {
  return call.getCallee() == "aten.clone.default" && call.getNumOperands() == 1;
}

/// Goes from the log-softmax back to the product.
bool LossMatcher::matchLogits(Value logits) {
  const int64_t vocabulary = head.logProbs.getShape().back();
  bool isF32 = false;
  while (logits) {
    auto call = logits.getDefiningOp<CallOp>();
    if (!call)
      return fail("its logits are not the result of a product");
    if (llvm::is_contained({"aten.mm.default", "aten.addmm.default"},
                           call.getCallee()))
      return matchProduct(call);
    RankedTensorType type = typeOf(logits);
    if (type.getRank() == 0 || type.getShape().back() != vocabulary ||
        call.getNumOperands() != 1)
      return fail("'" + call.getCallee() + "' computes its logits");
    take(call);
    StringRef scaling = getScaling(call);
    std::optional<double> factor = getFactor(call);
    std::optional<Slice> slice = readSlice(call, typeOf(call.getOperand(0)));
    if (!scaling.empty() && factor) {
      head.steps.push_back(scaling);
      head.factors.push_back(*factor);
    } else if (call.getCallee() == "aten.tanh.default" && !tanh) {
      head.steps.push_back("tanh");
      tanh = logits;
    } else if (isCastTo(call, Float32Type::get(call.getContext())) && !isF32 &&
               !typeOf(call.getOperand(0)).getElementType().isF64()) {
      head.steps.push_back("cast");
      isF32 = true;
    } else if (isReshape(call) || isCopy(call) ||
               (slice && slice->dim != type.getRank() - 1)) {
      head.shapes.push_back(call);
    } else {
      return fail("'" + call.getCallee() + "' computes its logits");
    }
    logits = call.getOperand(0);
  }
  return fail("its logits are not the result of a product");
}

bool LossMatcher::matchProduct(CallOp product) {
  take(product);
  std::reverse(head.steps.begin(), head.steps.end());
  std::reverse(head.factors.begin(), head.factors.end());
  std::reverse(head.shapes.begin(), head.shapes.end());
  const bool hasBias = product.getCallee() == "aten.addmm.default";
  head.hidden = getOperand(product, hasBias ? "mat1" : "self");
  head.weight = findTransposed(getOperand(product, "mat2"));
  head.bias = hasBias ? getOperand(product, "self") : Value();
  if (!head.weight)
    return fail("its projection is not by a transposed matrix");
  for (StringRef scale : {"alpha", "beta"})
    if (product.getArgument(scale) && !isInteger(product, scale, 1))
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
