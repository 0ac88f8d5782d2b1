// SPDX-License-Identifier: Apache-2.0

#include "TensorCalls.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

RankedTensorType fcdp::getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Value fcdp::createLike(CallBuilder call, Value like, ArrayRef<int64_t> shape) {
  return call.create({getTensorType(like).clone(shape)}).getResult(0);
}

aten::CallOp fcdp::getDefinition(Value value, StringRef callee) {
  auto call = value ? value.getDefiningOp<aten::CallOp>() : aten::CallOp();
  bool isIt = call && call.getCallee() == callee && call.getNumResults() == 1;
  return isIt ? call : aten::CallOp();
}

Value fcdp::padLast(Value value, int64_t multiple, OpBuilder &builder) {
  SmallVector<int64_t> shape(getTensorType(value).getShape());
  int64_t whole = llvm::alignTo(shape.back(), multiple);
  if (whole == shape.back())
    return value;
  CallBuilder pad(builder, value.getLoc(), "aten.constant_pad_nd.default");
  pad.tensor("self", value).integers("pad", {0, whole - shape.back()});
  shape.back() = whole;
  return createLike(pad, value, shape);
}

Value fcdp::takeFirst(Value value, int64_t dim, int64_t count,
                      OpBuilder &builder) {
  SmallVector<int64_t> shape(getTensorType(value).getShape());
  if (shape[dim] == count)
    return value;
  CallBuilder slice(builder, value.getLoc(), "aten.slice.Tensor");
  slice.tensor("self", value).integer("dim", dim).integer("start", 0);
  slice.integer("end", count);
  shape[dim] = count;
  return createLike(slice, value, shape);
}

Value fcdp::permute(Value value, ArrayRef<int64_t> order, OpBuilder &builder) {
  SmallVector<int64_t> shape;
  for (int64_t dim : order)
    shape.push_back(getTensorType(value).getDimSize(dim));
  CallBuilder call(builder, value.getLoc(), "aten.permute.default");
  call.tensor("self", value).integers("dims", order);
  return createLike(call, value, shape);
}

static bool isRowMajor(ArrayRef<int64_t> order) {
  return llvm::equal(order, llvm::seq<int64_t>(0, order.size()));
}

Value fcdp::arrange(Value value, ArrayRef<int64_t> order, OpBuilder &builder) {
  bool permutes = !isRowMajor(order);
  Value ordered = permutes ? permute(value, order, builder) : value;
  CallBuilder call(builder, value.getLoc(), "aten.contiguous.default");
  call.tensor("self", ordered);
  Value result = createLike(call, ordered, getTensorType(ordered).getShape());
  if (!permutes)
    return result;
  SmallVector<int64_t> inverse(order.size());
  for (auto [position, dim] : llvm::enumerate(order))
    inverse[dim] = position;
  return permute(result, inverse, builder);
}

Value fcdp::repeatHeads(Value value, int64_t times, OpBuilder &builder) {
  if (times == 1)
    return value;
  ArrayRef<int64_t> s = getTensorType(value).getShape();
  CallBuilder unsqueeze(builder, value.getLoc(), "aten.unsqueeze.default");
  unsqueeze.tensor("self", value).integer("dim", 2);
  Value split = createLike(unsqueeze, value, {s[0], s[1], 1, s[2], s[3]});
  SmallVector<int64_t> repeated{s[0], s[1], times, s[2], s[3]};
  CallBuilder expand(builder, value.getLoc(), "aten.expand.default");
  expand.tensor("self", split).integers("size", repeated);
  CallBuilder clone(builder, value.getLoc(), "aten.clone.default");
  clone.tensor("self", createLike(expand, value, repeated));
  clone.literal("memory_format",
                aten::MemoryFormatAttr::get(builder.getContext(),
                                            aten::MemoryFormat::contiguous));
  SmallVector<int64_t> joined{s[0], s[1] * times, s[2], s[3]};
  CallBuilder view(builder, value.getLoc(), "aten.view.default");
  view.tensor("self", createLike(clone, value, repeated));
  view.integers("size", joined);
  return createLike(view, value, joined);
}

Value fcdp::sumHeads(Value value, int64_t times, OpBuilder &builder) {
  if (times == 1)
    return value;
  ArrayRef<int64_t> s = getTensorType(value).getShape();
  Value rowMajor = arrange(value, {0, 1, 2, 3}, builder);
  SmallVector<int64_t> split{s[0], s[1] / times, times, s[2], s[3]};
  CallBuilder view(builder, value.getLoc(), "aten.view.default");
  view.tensor("self", rowMajor).integers("size", split);
  CallBuilder sum(builder, value.getLoc(), "aten.sum.dim_IntList");
  sum.tensor("self", createLike(view, value, split)).integers("dim", {2});
  return createLike(sum, value, {s[0], s[1] / times, s[2], s[3]});
}
