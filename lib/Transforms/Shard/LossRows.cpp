// SPDX-License-Identifier: Apache-2.0

#include "Shard/LossRows.h"

#include "Retarget/CallBuilder.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

static RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, typeOf(value).getElementType());
}

Value LossRows::view(Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return CallBuilder(builder, location, "aten.view.default")
      .tensor("self", value)
      .integers("size", shape)
      .create(withShape(value, shape))
      .getResult(0);
}

Value LossRows::copy(Value value) {
  return CallBuilder(builder, location, "aten.clone.default")
      .tensor("self", value)
      .literal("memory_format",
               aten::MemoryFormatAttr::get(builder.getContext(),
                                           aten::MemoryFormat::contiguous))
      .create(value.getType())
      .getResult(0);
}

Value LossRows::reshape(Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return view(copy(value), shape);
}

Value LossRows::negate(Value value) {
  return CallBuilder(builder, location, "aten.neg.default")
      .tensor("self", value)
      .create(value.getType())
      .getResult(0);
}

Value LossRows::expand(Value number, ArrayRef<int64_t> shape) {
  return CallBuilder(builder, location, "aten.expand.default")
      .tensor("self", number)
      .integers("size", shape)
      .create(withShape(number, shape))
      .getResult(0);
}

static bool isSlice(CallOp call) {
  return call.getCallee() == "aten.slice.Tensor" && !isReshape(call);
}

/// Adds the arguments of a slice of logits.
static void addSlice(CallBuilder &call, CallOp of) {
  Slice slice = *readSlice(of, typeOf(of.getOperand(0)));
  call.integer("dim", slice.dim)
      .integer("start", slice.begin)
      .integer("end", slice.end)
      .integer("step", slice.step);
}

Value LossRows::toLoss(Value rows) {
  // Logits may have no copy after a slice, because a cast makes one.
  bool hasGaps = false;
  for (CallOp call : head.logits.shapes) {
    ArrayRef<int64_t> shape = typeOf(call.getResult(0)).getShape().drop_back();
    if (isSlice(call)) {
      CallBuilder slice(builder, location, "aten.slice.Tensor");
      slice.tensor("self", rows);
      addSlice(slice, call);
      rows = slice.create(withShape(rows, shape)).getResult(0);
      hasGaps = true;
    } else if (isReshape(call)) {
      rows = hasGaps ? reshape(rows, shape) : view(rows, shape);
    } else {
      rows = copy(rows);
      hasGaps = false;
    }
  }
  return rows;
}

Value LossRows::toProduct(Value rows, int64_t fill) {
  for (CallOp call : llvm::reverse(head.logits.shapes)) {
    ArrayRef<int64_t> shape = typeOf(call.getOperand(0)).getShape().drop_back();
    if (!isSlice(call)) {
      rows = view(rows, shape);
      continue;
    }
    bool isInteger = isa<IntegerType>(typeOf(rows).getElementType());
    CallBuilder filled(builder, location, "aten.new_full.default");
    filled.tensor("self", rows).integers("size", shape);
    if (isInteger)
      filled.integer("fill_value", fill);
    else
      filled.number("fill_value", fill);
    RankedTensorType type = withShape(rows, shape);
    Value whole = filled.create(type).getResult(0);
    CallBuilder scatter(builder, location, "aten.slice_scatter.default");
    scatter.tensor("self", whole).tensor("src", rows);
    addSlice(scatter, call);
    rows = scatter.create(type).getResult(0);
  }
  return view(rows, head.getRows());
}
