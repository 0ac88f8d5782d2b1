// SPDX-License-Identifier: Apache-2.0
//
// The table of rules by which the shape of an ATen operator's first result
// follows from its operands. Operators outside of the table are not checked.

#include "dialects/Aten/ResultShapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp::aten;

namespace {
/// The rule by which a result's shape follows from the operands.
enum class ResultShape {
  /// The shape of the first operand.
  First,
  /// The shape to which the operands are broadcast.
  Broadcast,
  /// A shape with as many elements as the first operand.
  SameElements,
  /// A shape with at most as many elements as the first operand.
  NoMoreElements,
  /// The literal `size`.
  Size,
  /// The shape of the product of two matrices, or of two batches of them.
  Product
};
} // namespace

// Operators are listed without overload, because all overloads of a name agree.
static const llvm::StringMap<ResultShape> &resultShapes() {
  static const llvm::StringMap<ResultShape> shapes = [] {
    llvm::StringMap<ResultShape> all;
    auto add = [&](ResultShape shape, ArrayRef<StringRef> names) {
      for (StringRef name : names)
        all[("aten." + name).str()] = shape;
    };
    add(ResultShape::First, {"_fused_rms_norm",
                             "_log_softmax",
                             "_log_softmax_backward_data",
                             "_softmax",
                             "_softmax_backward_data",
                             "_to_copy",
                             "abs",
                             "alias",
                             "bernoulli",
                             "bitwise_not",
                             "ceil",
                             "clamp_min",
                             "clone",
                             "copy",
                             "cos",
                             "cumsum",
                             "detach",
                             "elu",
                             "elu_backward",
                             "empty_like",
                             "erf",
                             "exp",
                             "fill",
                             "flip",
                             "floor",
                             "full_like",
                             "gelu",
                             "hardtanh",
                             "index_add",
                             "index_put",
                             "isnan",
                             "leaky_relu",
                             "log",
                             "log1p",
                             "logical_not",
                             "native_dropout",
                             "native_dropout_backward",
                             "native_group_norm",
                             "native_layer_norm",
                             "neg",
                             "ones_like",
                             "reciprocal",
                             "relu",
                             "round",
                             "rsqrt",
                             "scatter",
                             "scatter_add",
                             "sigmoid",
                             "sign",
                             "silu",
                             "sin",
                             "slice_scatter",
                             "softplus",
                             "sort",
                             "sqrt",
                             "tan",
                             "tanh",
                             "tril",
                             "triu",
                             "zeros_like"});
    add(ResultShape::Broadcast, {"add",
                                 "bitwise_and",
                                 "bitwise_or",
                                 "clamp",
                                 "div",
                                 "eq",
                                 "floor_divide",
                                 "ge",
                                 "gelu_backward",
                                 "gt",
                                 "le",
                                 "logical_and",
                                 "logical_or",
                                 "lt",
                                 "masked_fill",
                                 "maximum",
                                 "minimum",
                                 "mul",
                                 "ne",
                                 "pow",
                                 "remainder",
                                 "rsub",
                                 "sigmoid_backward",
                                 "silu_backward",
                                 "sub",
                                 "tanh_backward",
                                 "threshold_backward",
                                 "where"});
    add(ResultShape::SameElements,
        {"_reshape_alias", "_unsafe_view", "permute", "squeeze", "swapaxes",
         "t", "transpose", "unsqueeze", "view"});
    add(ResultShape::NoMoreElements, {"all",      "amax",
                                      "amin",     "any",
                                      "argmax",   "chunk",
                                      "diagonal", "linalg_vector_norm",
                                      "mean",     "narrow",
                                      "select",   "slice",
                                      "split",    "split_with_sizes",
                                      "std",      "sum",
                                      "topk",     "unbind",
                                      "var",      "var_mean"});
    add(ResultShape::Size,
        {"empty", "full", "new_empty", "new_full", "new_ones", "new_zeros",
         "ones", "rand", "randn", "zeros"});
    add(ResultShape::Product, {"bmm", "mm"});
    return all;
  }();
  return shapes;
}

/// Returns the number of elements, or none if it is not known or does not fit
/// in 64 bits.
static std::optional<int64_t> countElements(ArrayRef<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    if (ShapedType::isDynamic(size) ||
        llvm::MulOverflow(elements, size, elements))
      return std::nullopt;
  return elements;
}

static bool isSame(int64_t one, int64_t other) {
  return one == other || ShapedType::isDynamic(one) ||
         ShapedType::isDynamic(other);
}

static bool isSame(ArrayRef<int64_t> one, ArrayRef<int64_t> other) {
  return one.size() == other.size() &&
         llvm::all_of_zip(one, other,
                          [](int64_t a, int64_t b) { return isSame(a, b); });
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Returns the shape to which PyTorch broadcasts the operands, or none if their
/// shapes do not match.
static std::optional<SmallVector<int64_t>> broadcast(OperandRange operands) {
  SmallVector<int64_t> all;
  for (Value operand : operands) {
    ArrayRef<int64_t> shape = shapeOf(operand);
    if (shape.size() > all.size())
      all.insert(all.begin(), shape.size() - all.size(), 1);
    const size_t skipped = all.size() - shape.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &size = all[skipped + i];
      if (size == 1)
        size = shape[i];
      else if (shape[i] != 1 && !isSame(size, shape[i]))
        return std::nullopt;
    }
  }
  return all;
}

/// Returns the shape of the product of two operands, or none if their shapes do
/// not match.
static std::optional<SmallVector<int64_t>> multiply(OperandRange operands) {
  ArrayRef<int64_t> one = shapeOf(operands[0]), other = shapeOf(operands[1]);
  if (one.size() != other.size() || one.size() < 2 ||
      !isSame(one.back(), other[other.size() - 2]) ||
      !isSame(one.drop_back(2), other.drop_back(2)))
    return std::nullopt;
  SmallVector<int64_t> product(one);
  product.back() = other.back();
  return product;
}

/// Returns the literal list of sizes `size`, or none if there is no such list.
static std::optional<SmallVector<int64_t>> sizesOf(CallOp call) {
  auto list = dyn_cast_or_null<ArrayAttr>(call.getArgument("size"));
  if (!list || !llvm::all_of(list, llvm::IsaPred<IntegerAttr>))
    return std::nullopt;
  return llvm::map_to_vector(list.getAsRange<IntegerAttr>(),
                             [](IntegerAttr size) { return size.getInt(); });
}

/// Returns whether the first operand is the tensor that the operator is called
/// on. The arguments of edited text may be in any order.
static bool beginsWithItsTensor(CallOp call) {
  for (auto [name, arg] :
       llvm::zip(call.getArgNames().getAsRange<StringAttr>(), call.getArgs()))
    if (isa<OperandAttr, OperandListAttr>(arg))
      return isa<OperandAttr>(arg) &&
             llvm::is_contained({"self", "input", "grad_output", "grad"},
                                name.getValue());
  return false;
}

LogicalResult fcdp::aten::verifySizes(CallOp call) {
  for (Type type : llvm::concat<const Type>(call.getOperandTypes(),
                                            call.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    Type element = tensor.getElementType();
    int64_t bytes = 1;
    if (auto complex = dyn_cast<ComplexType>(element)) {
      element = complex.getElementType();
      bytes = 2;
    }
    if (element.isIntOrFloat())
      bytes *= llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
    for (int64_t size : tensor.getShape())
      // A dimension of size 0 does not allow the others to be larger.
      if (!ShapedType::isDynamic(size) &&
          (llvm::MulOverflow(bytes, std::max<int64_t>(size, 1), bytes) ||
           bytes > kMostTensorBytes))
        return call.emitOpError("expected tensors of at most ") // C6
               << kMostTensorBytes << " bytes, got " << type;
  }
  return success();
}

static std::string toText(ArrayRef<int64_t> shape) {
  return llvm::join(llvm::map_range(shape,
                                    [](int64_t size) {
                                      return ShapedType::isDynamic(size)
                                                 ? "?"
                                                 : std::to_string(size);
                                    }),
                    ", ");
}

LogicalResult fcdp::aten::verifyResultShape(CallOp call) {
  auto found = resultShapes().find(call.getCallee().rsplit('.').first);
  // A view in another type may have another number of elements.
  if (found == resultShapes().end() || call.getNumResults() == 0 ||
      call.getCallee() == "aten.view.dtype" ||
      (call.getUndefined() && llvm::is_contained(*call.getUndefined(), 0)))
    return success();
  ArrayRef<int64_t> result = shapeOf(call.getResult(0));
  auto expect = [&](const std::optional<SmallVector<int64_t>> &shape) {
    if (!shape)
      return LogicalResult(
          call.emitOpError("expected operands whose shapes fit together"));
    if (isSame(*shape, result))
      return success();
    return LogicalResult(call.emitOpError("expected the shape [")
                         << toText(*shape)
                         << "] for the first result, which follows from the "
                            "arguments, got "
                         << call.getResult(0).getType());
  };
  if (found->second == ResultShape::Size) {
    std::optional<SmallVector<int64_t>> sizes = sizesOf(call);
    return sizes ? expect(sizes) : success();
  }
  if (found->second == ResultShape::Broadcast)
    return expect(broadcast(call.getOperands()));
  if (!beginsWithItsTensor(call))
    return success();
  ArrayRef<int64_t> first = shapeOf(call.getOperand(0));
  if (found->second == ResultShape::First)
    return expect(SmallVector<int64_t>(first));
  if (found->second == ResultShape::Product)
    return call.getNumOperands() == 2 ? expect(multiply(call.getOperands()))
                                      : success();
  // A reduction over no elements may have some.
  std::optional<int64_t> before = countElements(first),
                         after = countElements(result);
  const bool isExact = found->second == ResultShape::SameElements;
  if (!before || !after || *before == 0 ||
      (isExact ? *after == *before : *after <= *before))
    return success();
  return call.emitOpError("expected ")
         << (isExact ? "" : "at most ") << *before
         << " elements in the first result, as the first operand has, got "
         << call.getResult(0).getType();
}
