// SPDX-License-Identifier: Apache-2.0
//
// Builds calls that change the shape and the memory layout of a tensor of
// static shape.
#pragma once

#include "CallBuilder.h"

namespace fcdp {

mlir::RankedTensorType getTensorType(mlir::Value value);

/// Creates `call`, whose one result has the element type of `like`.
mlir::Value createLike(CallBuilder call, mlir::Value like,
                       llvm::ArrayRef<int64_t> shape);

/// Returns the call of `callee` that computes `value` as its only result, or
/// null.
aten::CallOp getDefinition(mlir::Value value, llvm::StringRef callee);

mlir::Value permute(mlir::Value value, llvm::ArrayRef<int64_t> order,
                    mlir::OpBuilder &builder);

/// Pads the last dimension with zeros at its end, up to a multiple of
/// `multiple`.
mlir::Value padLast(mlir::Value value, int64_t multiple,
                    mlir::OpBuilder &builder);

/// Returns the first `count` elements of a dimension.
mlir::Value takeFirst(mlir::Value value, int64_t dim, int64_t count,
                      mlir::OpBuilder &builder);

/// Returns the same elements with the dimensions in memory in `order`,
/// outermost first, without gaps. Copies them only if necessary.
mlir::Value arrange(mlir::Value value, llvm::ArrayRef<int64_t> order,
                    mlir::OpBuilder &builder);

/// Returns [batch, heads * times, tokens, depth] from [batch, heads, tokens,
/// depth], with each head `times` times.
mlir::Value repeatHeads(mlir::Value value, int64_t times,
                        mlir::OpBuilder &builder);

/// Returns the gradient of the operand of `repeatHeads`, from the gradient of
/// its result.
mlir::Value sumHeads(mlir::Value value, int64_t times,
                     mlir::OpBuilder &builder);

} // namespace fcdp
