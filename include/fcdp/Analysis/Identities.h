// SPDX-License-Identifier: Apache-2.0
//
// Which parameter an operand of a call is, and whose gradient a result is.
// Types do not tell parameters of equal shapes apart, so calls name them.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Returns what `fcdp.parameters` is for an operation by the views that its
/// operands come from; null for a view, and if no operand is a parameter.
mlir::ArrayAttr findParameterOperands(mlir::Operation *op);

/// Gives the calls of a function in which parameters are viewed, and gradients
/// packed, the attributes `fcdp.parameters` and `fcdp.gradients`. Calls that
/// have one keep it.
void noteIdentities(mlir::func::FuncOp function);

} // namespace fcdp
