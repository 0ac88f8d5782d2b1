// SPDX-License-Identifier: Apache-2.0
//
// Recognizes the attention of a step that was exported on a CPU.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

inline constexpr llvm::StringLiteral kCpuForward =
    "aten._scaled_dot_product_flash_attention_for_cpu.default";
inline constexpr llvm::StringLiteral kCpuBackward =
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default";

/// Returns the operand of the argument `name`, or null.
mlir::Value getTensor(aten::CallOp call, llvm::StringRef name);

bool isCausal(aten::CallOp call);

/// Checks that `call` has the form that PyTorch exports, that its `results`
/// results begin with the types of the operands `like`, and that CUDA has
/// kernels for it. Otherwise fails with a diagnostic.
mlir::LogicalResult checkAttention(aten::CallOp call,
                                   llvm::ArrayRef<llvm::StringRef> like,
                                   unsigned results);

/// Returns the call of the forward pass that computed `saved`; looks through
/// detach.
mlir::Operation *getForward(mlir::Value saved);

/// Erases the operations that pass `value` to the backward pass. Returns
/// another operation that reads it, or null.
mlir::Operation *eraseSaved(mlir::Value value);

} // namespace fcdp
