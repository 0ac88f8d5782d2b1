// SPDX-License-Identifier: Apache-2.0

#include "PackedCalls.h"

#include "CpuAttention.h"

#include <limits>

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

bool fcdp::isPackedAttention(CallOp call) {
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
  return call.getNumResults() == (call.getCallee() == kPackedForward ? 2 : 3);
}

Value fcdp::view(Value value, ArrayRef<int64_t> shape, OpBuilder &builder) {
  CallBuilder call(builder, value.getLoc(), "aten.view.default");
  call.tensor("self", value).integers("size", shape);
  return createLike(call, value, shape);
}

Value fcdp::compare(StringRef callee, Value self, Value other,
                    ArrayRef<int64_t> shape, OpBuilder &builder) {
  CallBuilder call(builder, self.getLoc(), callee);
  call.tensor("self", self).tensor("other", other);
  return call.create({RankedTensorType::get(shape, builder.getI1Type())})
      .getResult(0);
}

Value fcdp::makeNumber(double value, Type type, Location loc,
                       OpBuilder &builder) {
  CallBuilder call(builder, loc, "aten.scalar_tensor.default");
  call.number("s", value).literal("dtype", TypeAttr::get(type));
  call.literal("device", aten::DeviceAttr::get(builder.getContext(), "cpu"));
  return call.create({RankedTensorType::get({}, type)}).getResult(0);
}

Value fcdp::makeRange(int64_t begin, int64_t end, Location loc,
                      OpBuilder &builder) {
  CallBuilder call(builder, loc,
                   begin == 0 ? "aten.arange.default" : "aten.arange.start");
  if (begin != 0)
    call.integer("start", begin);
  call.integer("end", end);
  call.literal("device", aten::DeviceAttr::get(builder.getContext(), "cpu"));
  return call
      .create({RankedTensorType::get({end - begin}, builder.getI64Type())})
      .getResult(0);
}

Value fcdp::makeBias(Value seen, Type type, OpBuilder &builder) {
  Location loc = seen.getLoc();
  Value shown = makeNumber(0, type, loc, builder),
        hidden = makeNumber(-std::numeric_limits<double>::infinity(), type, loc,
                            builder);
  CallBuilder where(builder, loc, "aten.where.self");
  where.tensor("condition", seen).tensor("self", shown).tensor("other", hidden);
  return where.create({getTensorType(seen).clone(type)}).getResult(0);
}
