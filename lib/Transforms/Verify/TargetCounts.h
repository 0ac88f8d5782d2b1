// SPDX-License-Identifier: Apache-2.0
//
// Counts of a function's operations by their targets.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp {

using Counts = llvm::DenseMap<mlir::StringAttr, int>;

/// Returns how many operations `OpTy` of `function` have each target.
template <typename OpTy>
Counts countTargets(mlir::func::FuncOp function) {
  Counts counts;
  for (auto op : function.getOps<OpTy>())
    ++counts[op.getTargetAttr().getAttr()];
  return counts;
}

/// Fails unless `count`, the number of `what` of `target` in the function, is
/// `expected`, 0 or 1.
inline mlir::LogicalResult verifyCount(mlir::func::FuncOp function,
                                       llvm::StringRef what,
                                       mlir::StringAttr target, int expected,
                                       int count) {
  if (count == expected)
    return mlir::success();
  return function.emitError("expected ")
         << (expected ? "one " : "no ") << what << " of @" << target.getValue()
         << ", got " << count;
}

} // namespace fcdp
