// SPDX-License-Identifier: Apache-2.0
//
// The table of pointwise operators. ATen computes bf16 in f32 and rounds each
// result. Some of its kernels have fused multiply-adds, where bodies have them,
// too. test/e2e/test_kernels.py compares each operator with libtorch's.

#include "Fuse/PointwiseOps.h"

#include "dialects/Fcdp/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

namespace {
/// Builds the arithmetic of one element in f32.
struct ElementBuilder {
  OpBuilder &builder;
  Location location;

  Value constant(double value) {
    return arith::ConstantOp::create(
        builder, location, builder.getF32FloatAttr(static_cast<float>(value)));
  }
  Value add(Value a, Value b) {
    return arith::AddFOp::create(builder, location, a, b);
  }
  Value sub(Value a, Value b) {
    return arith::SubFOp::create(builder, location, a, b);
  }
  Value mul(Value a, Value b) {
    return arith::MulFOp::create(builder, location, a, b);
  }
  Value div(Value a, Value b) {
    return arith::DivFOp::create(builder, location, a, b);
  }
  Value neg(Value a) { return arith::NegFOp::create(builder, location, a); }
  Value fma(Value a, Value b, Value c) {
    return math::FmaOp::create(builder, location, a, b, c);
  }
  Value sqrt(Value a) { return math::SqrtOp::create(builder, location, a); }
  /// Returns 1 + exp(-x).
  Value onePlusExp(Value x) {
    return add(constant(1), math::ExpOp::create(builder, location, neg(x)));
  }
  Value sigmoid(Value x) { return div(constant(1), onePlusExp(x)); }
};

/// Emits an operator for its tensors and numbers, in order.
using Emit = Value (*)(ElementBuilder &, ArrayRef<Value>);

struct PointwiseOp {
  StringRef callee;
  /// Arguments that are tensors or numbers, in order.
  SmallVector<StringRef, 2> arguments;
  Emit emit;
  /// Whether the last elements and the elements of strided tensors get other
  /// bits from ATen than the elements of whole vectors.
  bool hasScalarPath = false;
  /// Whether numbers are rounded to the type of tensors first.
  bool roundsNumbers = false;
};
} // namespace

static ArrayRef<PointwiseOp> pointwiseOps() {
  using B = ElementBuilder;
  using V = ArrayRef<Value>;
  static const PointwiseOp ops[] = {
      {"aten.add.Tensor",
       {"self", "other"},
       [](B &b, V v) { return b.add(v[0], v[1]); },
       /*hasScalarPath=*/false,
       /*roundsNumbers=*/true},
      {"aten.sub.Tensor",
       {"self", "other"},
       [](B &b, V v) { return b.sub(v[0], v[1]); },
       /*hasScalarPath=*/false,
       /*roundsNumbers=*/true},
      {"aten.mul.Tensor",
       {"self", "other"},
       [](B &b, V v) { return b.mul(v[0], v[1]); }},
      {"aten.mul.Scalar",
       {"self", "other"},
       [](B &b, V v) { return b.mul(v[0], v[1]); }},
      {"aten.div.Tensor",
       {"self", "other"},
       [](B &b, V v) { return b.div(v[0], v[1]); }},
      {"aten.neg.default", {"self"}, [](B &b, V v) { return b.neg(v[0]); }},
      {"aten.rsqrt.default",
       {"self"},
       [](B &b, V v) { return b.div(b.constant(1), b.sqrt(v[0])); }},
      {"aten._to_copy.default", {"self"}, [](B &, V v) { return v[0]; }},
      {"aten.sigmoid.default",
       {"self"},
       [](B &b, V v) { return b.sigmoid(v[0]); },
       /*hasScalarPath=*/true},
      {"aten.silu.default",
       {"self"},
       [](B &b, V v) { return b.div(v[0], b.onePlusExp(v[0])); },
       /*hasScalarPath=*/true},
      {"aten.silu_backward.default",
       {"grad_output", "self"},
       [](B &b, V v) {
         Value s = b.sigmoid(v[1]), one = b.constant(1);
         return b.mul(b.mul(v[0], s), b.fma(v[1], b.sub(one, s), one));
       },
       /*hasScalarPath=*/true}};
  return ops;
}

static const PointwiseOp *findOp(StringRef callee) {
  for (const PointwiseOp &op : pointwiseOps())
    if (op.callee == callee)
      return &op;
  return nullptr;
}

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static std::optional<double> getNumber(Attribute attr) {
  if (auto number = dyn_cast_or_null<FloatAttr>(attr))
    return number.getValueAsDouble();
  auto integer = dyn_cast_or_null<IntegerAttr>(attr);
  if (integer && !isa<BoolAttr>(integer))
    return static_cast<double>(integer.getInt());
  return std::nullopt;
}

/// Returns whether the call has no arguments but those of the table, and those
/// that it may have.
static bool hasOnlyKnownArguments(CallOp call, const PointwiseOp &op) {
  for (auto [name, value] :
       llvm::zip(call.getArgNames().getAsRange<StringAttr>(), call.getArgs())) {
    if (llvm::is_contained(op.arguments, name.getValue()))
      continue;
    if (name == "alpha" && getNumber(value) == 1.0)
      continue;
    if (name == "dtype" && call.getCallee() == "aten._to_copy.default")
      continue;
    return false;
  }
  return true;
}

/// Returns the elements of an operand of `shape` that element (r, c) of a
/// result of `whole` reads, and sets the width of rows.
static std::optional<KernelMap>
matchMap(ArrayRef<int64_t> shape, ArrayRef<int64_t> whole, int64_t &width) {
  if (shape == whole)
    return KernelMap::identity;
  if (ShapedType::getNumElements(shape) == 1)
    return KernelMap::scalar;
  int64_t wanted;
  KernelMap map;
  ArrayRef<int64_t> row = shape.drop_while([](int64_t d) { return d == 1; });
  size_t same = 0;
  while (same < shape.size() && shape.size() == whole.size() &&
         shape[same] == whole[same])
    ++same;
  if (row == whole.take_back(row.size())) {
    wanted = ShapedType::getNumElements(row);
    map = KernelMap::row;
  } else if (same > 0 && llvm::all_of(shape.drop_front(same),
                                      [](int64_t d) { return d == 1; })) {
    wanted = ShapedType::getNumElements(whole.drop_front(same));
    map = KernelMap::column;
  } else {
    return std::nullopt;
  }
  if (width != 0 && width != wanted)
    return std::nullopt;
  width = wanted;
  return map;
}

/// ATen computes elements of whole vectors alike. Its kernels take at most two
/// vectors of 64 bytes at once, of 2 bytes for each element.
static constexpr int64_t kVectorElements = 64;

std::optional<PointwiseCall> fcdp::matchPointwise(CallOp call) {
  const PointwiseOp *op = findOp(call.getCallee());
  if (!op || call->getNumResults() != 1 || !hasOnlyKnownArguments(call, *op))
    return std::nullopt;
  RankedTensorType result = getType(call.getResult(0));
  bool casts = call.getCallee() == "aten._to_copy.default";
  if (!hasByteSize(result) || !isKernelElement(result.getElementType()) ||
      result.getNumElements() == 0 ||
      (op->hasScalarPath && result.getNumElements() % kVectorElements != 0))
    return std::nullopt;
  PointwiseCall matched;
  matched.call = call;
  matched.name = call.getCallee().split('.').second.split('.').first;
  for (StringRef name : op->arguments) {
    Attribute argument = call.getArgument(name);
    if (getNumber(argument))
      continue;
    auto operand = dyn_cast_or_null<aten::OperandAttr>(argument);
    if (!operand || operand.getIndex() != matched.maps.size())
      return std::nullopt;
    RankedTensorType type = getType(call.getOperand(operand.getIndex()));
    if (!hasByteSize(type) || !isKernelElement(type.getElementType()) ||
        (!casts && type.getElementType() != result.getElementType()))
      return std::nullopt;
    std::optional<KernelMap> map =
        matchMap(type.getShape(), result.getShape(), matched.width);
    if (!map)
      return std::nullopt;
    matched.maps.push_back(*map);
  }
  // The order of dimensions in the memory of the result is an operand's.
  if (!llvm::is_contained(matched.maps, KernelMap::identity) ||
      getDimOrder(call))
    return std::nullopt;
  return matched;
}

static double roundToBf16(double number) {
  llvm::APFloat value(static_cast<float>(number));
  bool losesInfo;
  value.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

Value fcdp::emitElement(OpBuilder &builder, CallOp call,
                        ArrayRef<Value> operands) {
  ElementBuilder element{builder, call.getLoc()};
  const PointwiseOp *op = findOp(call.getCallee());
  Type f32 = builder.getF32Type();
  Type type = getType(call.getResult(0)).getElementType();
  SmallVector<Value> values;
  for (StringRef name : op->arguments) {
    Attribute argument = call.getArgument(name);
    if (std::optional<double> number = getNumber(argument)) {
      values.push_back(element.constant(
          op->roundsNumbers && type.isBF16() ? roundToBf16(*number) : *number));
      continue;
    }
    Value value = operands[cast<aten::OperandAttr>(argument).getIndex()];
    if (!value.getType().isF32())
      value = arith::ExtFOp::create(builder, call.getLoc(), f32, value);
    values.push_back(value);
  }
  Value value = op->emit(element, values);
  if (type != value.getType())
    value = arith::TruncFOp::create(builder, call.getLoc(), type, value);
  return value;
}
