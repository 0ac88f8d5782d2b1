// SPDX-License-Identifier: Apache-2.0

#include "PackedMasks.h"

#include "CpuAttention.h"
#include "TensorCalls.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/DenseMap.h"

#include <limits>

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

static constexpr llvm::StringLiteral kForward = "fcdp.packed_attention.default",
                                     kBackward =
                                         "fcdp.packed_attention_backward."
                                         "default";

namespace {
class Masker {
public:
  LogicalResult replace(CallOp call);

private:
  Value getMask(CallOp call, OpBuilder &builder);

  /// By documents, positions and the type of the query. Layers share them.
  llvm::DenseMap<std::tuple<Value, Value, Type>, Value> masks;
};
} // namespace

/// Returns whether query, documents and positions fit together.
static bool isWellFormed(CallOp call) {
  Value query = getTensor(call, "query"),
        documents = getTensor(call, "documents"),
        positions = getTensor(call, "positions");
  if (!query || !documents || !getTensor(call, "key") ||
      !getTensor(call, "value") || getTensorType(query).getRank() != 4 ||
      !isa<FloatType>(getTensorType(query).getElementType()))
    return false;
  ArrayRef<int64_t> shape = getTensorType(query).getShape();
  for (Value rows : {documents, positions ? positions : documents})
    if (getTensorType(rows).getShape() != ArrayRef{shape[0], shape[2]} ||
        !isa<IntegerType>(getTensorType(rows).getElementType()))
      return false;
  return call.getNumResults() == (call.getCallee() == kForward ? 2 : 3);
}

static Value view(Value value, ArrayRef<int64_t> shape, OpBuilder &builder) {
  CallBuilder call(builder, value.getLoc(), "aten.view.default");
  call.tensor("self", value).integers("size", shape);
  return createLike(call, value, shape);
}

/// Compares each of `rows` [rows, tokens] with each of its row.
static Value compare(StringRef callee, Value self, Value other,
                     OpBuilder &builder) {
  SmallVector<int64_t> shape(getTensorType(self).getShape());
  shape[2] = shape[3] = std::max(getTensorType(self).getDimSize(2),
                                 getTensorType(self).getDimSize(3));
  CallBuilder call(builder, self.getLoc(), callee);
  call.tensor("self", self).tensor("other", other);
  return call.create({RankedTensorType::get(shape, builder.getI1Type())})
      .getResult(0);
}

static Value makeNumber(double value, Type type, Location loc,
                        OpBuilder &builder) {
  CallBuilder call(builder, loc, "aten.scalar_tensor.default");
  call.number("s", value).literal("dtype", TypeAttr::get(type));
  call.literal("device", aten::DeviceAttr::get(builder.getContext(), "cpu"));
  return call.create({RankedTensorType::get({}, type)}).getResult(0);
}

static Value makePlaces(int64_t tokens, Location loc, OpBuilder &builder) {
  CallBuilder call(builder, loc, "aten.arange.default");
  call.integer("end", tokens);
  call.literal("device", aten::DeviceAttr::get(builder.getContext(), "cpu"));
  return call.create({RankedTensorType::get({tokens}, builder.getI64Type())})
      .getResult(0);
}

Value Masker::getMask(CallOp call, OpBuilder &builder) {
  Value documents = getTensor(call, "documents"),
        positions = getTensor(call, "positions");
  RankedTensorType query = getTensorType(getTensor(call, "query"));
  Type type = query.getElementType();
  Value &mask = masks[{documents, positions, type}];
  if (mask)
    return mask;
  int64_t rows = query.getDimSize(0), tokens = query.getDimSize(2);
  Location loc = call.getLoc();
  Value same =
      compare("aten.eq.Tensor", view(documents, {rows, 1, tokens, 1}, builder),
              view(documents, {rows, 1, 1, tokens}, builder), builder);
  Value order = positions;
  if (!order) {
    order = makePlaces(tokens, loc, builder);
    rows = 1;
  }
  Value before =
      compare("aten.le.Tensor", view(order, {rows, 1, 1, tokens}, builder),
              view(order, {rows, 1, tokens, 1}, builder), builder);
  CallBuilder both(builder, loc, "aten.bitwise_and.Tensor");
  both.tensor("self", same).tensor("other", before);
  Value seen = both.create({same.getType()}).getResult(0);
  Value shown = makeNumber(0, type, loc, builder),
        hidden = makeNumber(-std::numeric_limits<double>::infinity(), type, loc,
                            builder);
  CallBuilder where(builder, loc, "aten.where.self");
  where.tensor("condition", seen).tensor("self", shown).tensor("other", hidden);
  return masks[{documents, positions, type}] =
             where.create({getTensorType(seen).clone(type)}).getResult(0);
}

LogicalResult Masker::replace(CallOp call) {
  if (!isWellFormed(call))
    return call.emitError("expected the operands and results of '")
           << call.getCallee() << "' as fcdp.export writes them: query, key "
           << "and value [batch, heads, tokens, depth], and documents and "
              "positions [batch, tokens]";
  OpBuilder builder(call);
  Value mask = getMask(call, builder);
  bool isForward = call.getCallee() == kForward;
  CallBuilder made(builder, call.getLoc(),
                   isForward ? kCpuForward : kCpuBackward);
  static constexpr llvm::StringLiteral kNames[] = {
      "grad_out", "query", "key", "value", "out", "logsumexp"};
  for (StringRef name : kNames)
    if (Value tensor = getTensor(call, name))
      made.tensor(name, tensor);
  made.number("dropout_p", 0).boolean("is_causal", false);
  made.tensor("attn_mask", mask).optional("scale", call.getArgument("scale"));
  CallOp attention = made.create(call.getResultTypes());
  attention->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  call.replaceAllUsesWith(attention.getResults());
  call.erase();
  return success();
}

LogicalResult fcdp::maskPackedAttention(Operation *step) {
  SmallVector<CallOp> calls;
  step->walk([&](CallOp call) {
    if (call.getCallee() == kForward || call.getCallee() == kBackward)
      calls.push_back(call);
  });
  Masker masker;
  for (CallOp call : calls)
    if (failed(masker.replace(call)))
      return failure();
  return success();
}
