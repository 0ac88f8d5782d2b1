// SPDX-License-Identifier: Apache-2.0
//
// Finds the frozen matrices of an imported module that may be packed.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A product that reads a matrix.
struct MatrixUse {
  mlir::OpOperand *operand;
  /// The views and casts between the read of the parameter and the operand.
  llvm::SmallVector<mlir::Operation *, 4> views;
};

struct FrozenMatrix {
  ParameterOp parameter;
  llvm::SmallVector<ReadParameterOp> reads;
  llvm::SmallVector<MatrixUse> uses;
  /// Whether the forward pass multiplies by the matrix itself, instead of its
  /// transpose.
  bool isTransposed = false;
  /// Whether the loss depends on a product with it through no other product.
  bool isHead = false;
  /// The reason for which it cannot be packed; empty if it can.
  std::string problem;
};

/// Returns the frozen matrices in f32, bf16 or f16, in their order.
llvm::SmallVector<FrozenMatrix> findFrozenMatrices(mlir::ModuleOp module);

} // namespace fcdp
