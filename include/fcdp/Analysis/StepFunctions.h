// SPDX-License-Identifier: Apache-2.0
//
// The functions of a step in a module. Their order is in StepFamily.h.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/StepFamily.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Returns the role of `function`, which must have one.
Role getRole(mlir::func::FuncOp function);

/// Returns whether the module has functions that evaluate the model.
bool hasEvaluation(mlir::ModuleOp module);

/// Returns the functions of the module that `function` may come after.
llvm::SmallVector<mlir::func::FuncOp>
findPredecessors(mlir::func::FuncOp function);

} // namespace fcdp
