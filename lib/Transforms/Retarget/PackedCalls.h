// SPDX-License-Identifier: Apache-2.0
//
// Calls of the runtime's attention by documents, and what both of its
// replacements for CUDA are made of.
#pragma once

#include "TensorCalls.h"

namespace fcdp {

inline constexpr llvm::StringLiteral kPackedForward =
    "fcdp.packed_attention.default";
inline constexpr llvm::StringLiteral kPackedBackward =
    "fcdp.packed_attention_backward.default";

/// Returns whether query, documents and positions fit together, and the number
/// of results is right.
bool isPackedAttention(aten::CallOp call);

mlir::Value view(mlir::Value value, llvm::ArrayRef<int64_t> shape,
                 mlir::OpBuilder &builder);

/// Creates a call of `callee` with the arguments 'self' and 'other', whose
/// result has `shape`.
mlir::Value compare(llvm::StringRef callee, mlir::Value self, mlir::Value other,
                    llvm::ArrayRef<int64_t> shape, mlir::OpBuilder &builder);

/// Creates a tensor of no dimensions.
mlir::Value makeNumber(double value, mlir::Type type, mlir::Location loc,
                       mlir::OpBuilder &builder);

/// Creates the integers [begin, end).
mlir::Value makeRange(int64_t begin, int64_t end, mlir::Location loc,
                      mlir::OpBuilder &builder);

/// Returns what is added to scores: 0 where `seen` is true, and minus infinity
/// elsewhere.
mlir::Value makeBias(mlir::Value seen, mlir::Type type,
                     mlir::OpBuilder &builder);

} // namespace fcdp
