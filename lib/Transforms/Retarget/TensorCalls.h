// SPDX-License-Identifier: Apache-2.0
//
// Calls that make other shapes and orders of a tensor, of static shape.
#pragma once

#include "CallBuilder.h"

namespace fcdp {

mlir::RankedTensorType getTensorType(mlir::Value value);

/// Makes `call`, whose one result has the element type of `like`.
mlir::Value createLike(CallBuilder call, mlir::Value like,
                       llvm::ArrayRef<int64_t> shape);

/// Zeros behind the last dimension, up to a multiple of `multiple`.
mlir::Value padLast(mlir::Value value, int64_t multiple,
                    mlir::OpBuilder &builder);

/// The first `count` of a dimension.
mlir::Value takeFirst(mlir::Value value, int64_t dim, int64_t count,
                      mlir::OpBuilder &builder);

/// Returns the same elements with the dimensions in memory in `order`,
/// outermost first, without gaps. Copies them only if necessary.
mlir::Value arrange(mlir::Value value, llvm::ArrayRef<int64_t> order,
                    mlir::OpBuilder &builder);

/// [batch, heads, tokens, depth] to [batch, heads * times, tokens, depth], each
/// head `times` times.
mlir::Value repeatHeads(mlir::Value value, int64_t times,
                        mlir::OpBuilder &builder);

/// The gradient of what `repeatHeads` gives, summed to that of its operand.
mlir::Value sumHeads(mlir::Value value, int64_t times,
                     mlir::OpBuilder &builder);

} // namespace fcdp
