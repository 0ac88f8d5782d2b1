// SPDX-License-Identifier: Apache-2.0

#include "PackedMasks.h"

#include "CpuAttention.h"
#include "PackedCalls.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

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
              view(documents, {rows, 1, 1, tokens}, builder),
              {rows, 1, tokens, tokens}, builder);
  Value order = positions;
  if (!order) {
    order = makeRange(0, tokens, loc, builder);
    rows = 1;
  }
  Value before =
      compare("aten.le.Tensor", view(order, {rows, 1, 1, tokens}, builder),
              view(order, {rows, 1, tokens, 1}, builder),
              {rows, 1, tokens, tokens}, builder);
  CallBuilder both(builder, loc, "aten.bitwise_and.Tensor");
  both.tensor("self", same).tensor("other", before);
  Value seen = both.create({same.getType()}).getResult(0);
  return masks[{documents, positions, type}] = makeBias(seen, type, builder);
}

LogicalResult Masker::replace(CallOp call) {
  if (!isPackedAttention(call))
    return call.emitError("expected the operands and results of '")
           << call.getCallee() << "' as fcdp.export writes them: query, key "
           << "and value [batch, heads, tokens, depth], and documents and "
              "positions [batch, tokens]";
  OpBuilder builder(call);
  Value mask = getMask(call, builder);
  bool isForward = call.getCallee() == kPackedForward;
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
    if (call.getCallee() == kPackedForward ||
        call.getCallee() == kPackedBackward)
      calls.push_back(call);
  });
  Masker masker;
  for (CallOp call : calls)
    if (failed(masker.replace(call)))
      return failure();
  return success();
}
