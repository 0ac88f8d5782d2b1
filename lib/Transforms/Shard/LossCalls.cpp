// SPDX-License-Identifier: Apache-2.0

#include "Shard/LossCalls.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

CallOp fcdp::getCall(Value value, StringRef callee) {
  auto call = value ? value.getDefiningOp<CallOp>() : CallOp();
  return call && call.getCallee() == callee ? call : CallOp();
}

Value fcdp::getOperand(CallOp call, StringRef name) {
  auto operand = dyn_cast_or_null<aten::OperandAttr>(call.getArgument(name));
  return operand ? call.getOperand(operand.getIndex()) : Value();
}

bool fcdp::isInteger(CallOp call, StringRef name, int64_t wanted) {
  auto value = dyn_cast_or_null<IntegerAttr>(call.getArgument(name));
  return value && value.getInt() == wanted;
}

bool fcdp::isNone(CallOp call, StringRef name) {
  Attribute value = call.getArgument(name);
  return !value || isa<UnitAttr>(value);
}

bool fcdp::isIntegerList(CallOp call, StringRef name, int64_t only) {
  auto list = dyn_cast_or_null<ArrayAttr>(call.getArgument(name));
  auto first =
      list && list.size() == 1 ? dyn_cast<IntegerAttr>(list[0]) : IntegerAttr();
  return first && first.getInt() == only;
}

bool fcdp::isLastDim(CallOp call, int64_t rank) {
  return isInteger(call, "dim", rank - 1) || isInteger(call, "dim", -1);
}

bool fcdp::isLastDimList(CallOp call, int64_t rank) {
  return isIntegerList(call, "dim", rank - 1) || isIntegerList(call, "dim", -1);
}

/// Returns whether the call takes a part, or puts a part into zeros, that is
/// the whole.
static bool isWholeSlice(CallOp call) {
  return (call.getCallee() == "aten.slice.Tensor" ||
          call.getCallee() == "aten.slice_backward.default") &&
         call.getNumOperands() == 1 &&
         call.getOperand(0).getType() == call.getResult(0).getType();
}

bool fcdp::isReshape(CallOp call) {
  return llvm::is_contained({"aten.view.default", "aten._unsafe_view.default",
                             "aten.detach.default"},
                            call.getCallee()) ||
         isWholeSlice(call);
}

Value fcdp::skipReshapes(Value value) {
  while (auto call = value.getDefiningOp<CallOp>()) {
    if (!isReshape(call))
      break;
    value = call.getOperand(0);
  }
  return value;
}

bool fcdp::isSame(Value one, Value other) {
  return one == other || (one.getType() == other.getType() &&
                          skipReshapes(one) == skipReshapes(other));
}

Value fcdp::findTransposed(Value value) {
  bool isTransposed = false;
  while (CallOp call = getCall(value, "aten.t.default")) {
    value = call.getOperand(0);
    isTransposed = !isTransposed;
  }
  return isTransposed ? value : Value();
}

Projection fcdp::readProjection(CallOp product) {
  Projection read;
  const bool hasBias = product.getCallee() == "aten.addmm.default";
  read.hidden = getOperand(product, hasBias ? "mat1" : "self");
  read.weight = findTransposed(getOperand(product, "mat2"));
  read.bias = hasBias ? getOperand(product, "self") : Value();
  for (StringRef scale : {"alpha", "beta"})
    read.isScaled |=
        product.getArgument(scale) && !isInteger(product, scale, 1);
  return read;
}

std::optional<double> fcdp::getFactor(CallOp call) {
  Attribute other = call.getArgument("other");
  if (call.getNumOperands() != 1 || call.getArgNames().size() != 2)
    return std::nullopt;
  if (auto number = dyn_cast_or_null<FloatAttr>(other))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_or_null<IntegerAttr>(other);
      number && !isa<BoolAttr>(number))
    return double(number.getInt());
  return std::nullopt;
}

StringRef fcdp::getScaling(CallOp call) {
  if (llvm::is_contained({"aten.div.Tensor", "aten.div.Scalar"},
                         call.getCallee()))
    return "div";
  if (llvm::is_contained({"aten.mul.Tensor", "aten.mul.Scalar"},
                         call.getCallee()))
    return "mul";
  return "";
}

bool fcdp::isCastTo(CallOp call, Type wanted) {
  return call.getCallee() == "aten._to_copy.default" &&
         typeOf(call.getResult(0)).getElementType() == wanted &&
         isNone(call, "memory_format");
}

std::optional<Slice> fcdp::readSlice(CallOp call, RankedTensorType of) {
  if (call.getCallee() != "aten.slice.Tensor" &&
      call.getCallee() != "aten.slice_backward.default")
    return std::nullopt;
  auto read = [&](StringRef name, int64_t otherwise) {
    auto value = dyn_cast_or_null<IntegerAttr>(call.getArgument(name));
    return value ? value.getInt() : otherwise;
  };
  Slice slice;
  slice.dim = read("dim", 0);
  if (slice.dim < 0)
    slice.dim += of.getRank();
  if (slice.dim < 0 || slice.dim >= of.getRank())
    return std::nullopt;
  const int64_t size = of.getDimSize(slice.dim);
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  slice.begin = clamp(read("start", 0));
  slice.end = clamp(read("end", size));
  slice.step = read("step", 1);
  return slice;
}
