// SPDX-License-Identifier: Apache-2.0
//
// The attention of a step that was exported on a CPU.
#pragma once

#include "dialects/Aten/Aten.h"

namespace fcdp {

inline constexpr llvm::StringLiteral kCpuForward =
    "aten._scaled_dot_product_flash_attention_for_cpu.default";
inline constexpr llvm::StringLiteral kCpuBackward =
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default";

/// The operand given for the argument `name`, or null.
mlir::Value getTensor(aten::CallOp call, llvm::StringRef name);

bool isCausal(aten::CallOp call);

/// Fails, with a diagnostic, unless `call` is as PyTorch exports it, with as
/// many results, the first of the types of the operands `like`, and CUDA has
/// kernels for it.
mlir::LogicalResult checkAttention(aten::CallOp call,
                                   llvm::ArrayRef<llvm::StringRef> like,
                                   unsigned results);

/// The call that gave what the forward pass saved; looks through detach.
mlir::Operation *getForward(mlir::Value saved);

/// Erases what handed `value` on to the backward pass. Gives an operation that
/// reads it for something else, if there is one.
mlir::Operation *eraseSaved(mlir::Value value);

} // namespace fcdp
