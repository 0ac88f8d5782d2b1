// SPDX-License-Identifier: Apache-2.0
//
// Calls of kernels that the compiler writes.
#pragma once

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// The beginning of the callee of a kernel's calls.
inline constexpr llvm::StringLiteral kKernelCallee = "fcdp.kernel.";
/// The beginning of a kernel's symbol.
inline constexpr llvm::StringLiteral kKernelSymbol = "kernel.";
/// The most operands and results of a kernel, and operations of its body.
inline constexpr size_t kMostKernelTensors = 16;
inline constexpr size_t kMostKernelOps = 512;

/// Returns whether operands and results of kernels may have elements of `type`.
inline bool isKernelElement(mlir::Type type) {
  return type.isF32() || type.isBF16();
}

/// Returns whether the call is of a kernel.
inline bool isKernelCall(aten::CallOp call) {
  return call.getCallee().starts_with(kKernelCallee);
}

/// Returns the symbol of the kernel of such a call.
inline llvm::StringRef getKernelSymbol(aten::CallOp call) {
  return call.getCallee().drop_front(sizeof("fcdp.") - 1);
}

/// Checks that each call of a kernel fits the kernel.
mlir::LogicalResult verifyKernelCalls(mlir::ModuleOp module);

} // namespace fcdp
