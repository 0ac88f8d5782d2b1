// SPDX-License-Identifier: Apache-2.0
//
// The decision which optimizer updates each parameter.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp {

/// The optimizer of each trained parameter, by its symbol.
using OptimizerByParameter = llvm::DenseMap<mlir::StringAttr, mlir::Attribute>;

/// Chooses the optimizer of each parameter that `step` trains, by the options
/// `optimizer` and `group`, and gives parameters the groups of the latter;
/// groups that are there stay. Reports options that are wrong, and an optimizer
/// that would update nothing.
mlir::FailureOr<OptimizerByParameter>
chooseOptimizers(mlir::func::FuncOp step, llvm::StringRef optimizer,
                 llvm::StringRef group);

} // namespace fcdp
