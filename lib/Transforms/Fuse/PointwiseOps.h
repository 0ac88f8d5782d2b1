// SPDX-License-Identifier: Apache-2.0
//
// The pointwise operators that kernels can compute with ATen's bits.
#pragma once

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "mlir/IR/Builders.h"

namespace fcdp {

/// A pointwise call, whose operands are the call's in order.
struct PointwiseCall {
  aten::CallOp call;
  /// The map of each operand, for the shape of the result.
  llvm::SmallVector<KernelMap> maps;
  /// The width of rows, for operands with the map `row` or `column`; 0 if there
  /// are none.
  int64_t width = 0;
  /// The name of the operator, without namespace and overload.
  llvm::StringRef name;
};

/// Returns how a kernel computes the call, or none if no kernel does with the
/// bits of ATen's kernels. Tensors must be contiguous.
std::optional<PointwiseCall> matchPointwise(aten::CallOp call);

/// Emits the call for one element of each operand.
mlir::Value emitElement(mlir::OpBuilder &builder, aten::CallOp call,
                        llvm::ArrayRef<mlir::Value> operands);

} // namespace fcdp
