// SPDX-License-Identifier: Apache-2.0
//
// Matches RMS norms in a CPU's export, which has them operator by operator.
#pragma once

#include "dialects/Aten/Aten.h"

#include <array>
#include <optional>

namespace fcdp {

/// The backward pass of an RMS norm.
struct RmsNormGradients {
  /// The gradient of the norm's result.
  mlir::Value grad;
  /// The gradient of the input, if it has one. `direct` is the part through the
  /// product with the inverse deviation. `sum` adds the part through the
  /// deviation itself, `indirect`, perhaps after other gradients of the input.
  aten::CallOp direct, sum;
  mlir::Value indirect;
  /// The gradient of the weight in the weight's shape, if it has one.
  mlir::Value ofWeight;
  /// All calls of the backward pass, and the first of them in the block.
  llvm::SmallVector<aten::CallOp> calls;
  aten::CallOp first;
};

/// The norm input * rsqrt(mean(input ^ 2) + eps), over the last dimensions, and
/// its product with a weight.
struct RmsNorm {
  mlir::Value input;
  double eps;
  /// The dimensions over which the mean is taken.
  llvm::SmallVector<int64_t> shape;
  /// The inverse deviation, and the product of the input with it.
  aten::CallOp rsqrt, scaled;
  /// The product with the weight. Both are null if the norm has no weight, or
  /// if other calls than this product and its gradients read `scaled`.
  aten::CallOp weighted;
  mlir::Value weight;
  /// The backward pass; none unless all of it was found.
  std::optional<RmsNormGradients> gradients;
  /// The calls of the forward pass.
  llvm::SmallVector<aten::CallOp> calls;

  aten::CallOp getResult() { return weighted ? weighted : scaled; }
};

/// Returns the norm whose inverse deviation is `rsqrt`, computed in f32 or f64,
/// or none if it is not part of one.
std::optional<RmsNorm> matchRmsNorm(aten::CallOp rsqrt);

/// Returns whether `call` only changes the type of its operand's elements.
bool isCast(aten::CallOp call);

} // namespace fcdp
