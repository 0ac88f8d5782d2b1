// SPDX-License-Identifier: Apache-2.0
//
// Finds pointwise calls that one kernel can compute.
#pragma once

#include "Fuse/PointwiseOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Calls that become one call of a kernel.
struct FusedCalls {
  /// In order.
  llvm::SmallVector<PointwiseCall> members;
  /// The values that the kernel reads, in the order of their first use, with
  /// their maps.
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<KernelMap> maps;
  /// The values that others use.
  llvm::SmallVector<mlir::Value> results;

  /// Returns the bytes of memory that the members access and the kernel does
  /// not.
  int64_t savedBytes() const;
  /// Gives the kernel's call the attributes of its members.
  void copyAttributes(aten::CallOp call) const;
};

/// Finds clusters of at least two calls of a function, moves their members so
/// that they follow each other, and calls `replace` for each, which erases the
/// members. At no time does the function keep more bytes than before: a cluster
/// is not made if it does.
void fuseCalls(mlir::func::FuncOp function,
               llvm::function_ref<void(const FusedCalls &)> replace);

} // namespace fcdp
