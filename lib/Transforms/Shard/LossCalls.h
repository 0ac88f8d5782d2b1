// SPDX-License-Identifier: Apache-2.0
//
// Reads the calls of which losses are made.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Returns the call of `callee` that defines `value`, or null.
aten::CallOp getCall(mlir::Value value, llvm::StringRef callee);

/// Returns the tensor that the call has for the argument `name`, or null.
mlir::Value getOperand(aten::CallOp call, llvm::StringRef name);

bool isInteger(aten::CallOp call, llvm::StringRef name, int64_t wanted);
bool isNone(aten::CallOp call, llvm::StringRef name);
/// Returns whether the argument is a list of one integer, `only`.
bool isIntegerList(aten::CallOp call, llvm::StringRef name, int64_t only);
/// Returns whether the argument `dim` is the last of `rank` dimensions.
bool isLastDim(aten::CallOp call, int64_t rank);
/// The same for a list of one dimension.
bool isLastDimList(aten::CallOp call, int64_t rank);

/// Returns whether the call gives its operand another shape, or passes it on.
bool isReshape(aten::CallOp call);
/// Returns the value of which `value` is a reshape.
mlir::Value skipReshapes(mlir::Value value);
bool isSame(mlir::Value one, mlir::Value other);

/// Returns the matrix that is transposed once in `value`, or null.
mlir::Value findTransposed(mlir::Value value);

/// The operands of a product with a transposed matrix.
struct Projection {
  mlir::Value hidden, weight, bias;
  /// Whether the product or the bias has a factor.
  bool isScaled = false;
};
/// Reads a call of aten.mm or aten.addmm. There is no weight if none is
/// transposed.
Projection readProjection(aten::CallOp product);

/// Returns the number that the call multiplies or divides by, if it does only
/// that.
std::optional<double> getFactor(aten::CallOp call);
/// Returns the word for a call that scales, and an empty one for others.
llvm::StringRef getScaling(aten::CallOp call);

/// Returns whether the call changes nothing but the type, to `wanted`. The
/// device is the step's, and the layout is strided.
bool isCastTo(aten::CallOp call, mlir::Type wanted);

/// A part of a tensor's dimension.
struct Slice {
  int64_t dim = 0, begin = 0, end = 0, step = 1;

  bool operator==(const Slice &other) const {
    return dim == other.dim && begin == other.begin && end == other.end &&
           step == other.step;
  }
};
/// Returns the slice of aten.slice or aten.slice_backward, for a tensor of the
/// type `of`, or none if the call is neither.
std::optional<Slice> readSlice(aten::CallOp call, mlir::RankedTensorType of);

} // namespace fcdp
