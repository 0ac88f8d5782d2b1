// SPDX-License-Identifier: Apache-2.0
//
// Finds which parameter an operand of a call is, and which parameter's gradient
// a result is. Types do not tell parameters of equal shapes apart, so calls
// name them.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Returns the attribute `fcdp.parameters` of an operation, derived from the
/// views that define its operands. Returns null for a view, and if no operand
/// is a parameter.
mlir::ArrayAttr findParameterOperands(mlir::Operation *op);

/// Sets the attributes `fcdp.parameters` and `fcdp.gradients` of the calls of a
/// function in which parameters are viewed and gradients packed. A call that
/// has one of them keeps it.
void noteIdentities(mlir::func::FuncOp function);

} // namespace fcdp
