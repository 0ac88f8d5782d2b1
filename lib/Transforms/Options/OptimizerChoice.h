// SPDX-License-Identifier: Apache-2.0
//
// Decides which optimizer updates each parameter.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp {

/// The optimizer and the settings that update a trained parameter.
struct ParameterUpdate {
  mlir::Attribute optimizer;
  /// The settings of the parameter's group; null for the optimizer's own.
  GroupAttr group;
};

/// The updates by the parameter's symbol.
using UpdateByParameter = llvm::DenseMap<mlir::StringAttr, ParameterUpdate>;

/// Chooses the optimizer of each parameter that `step` trains by the options
/// `optimizer` and `group`, and its settings by `group`. Reports invalid
/// options, and an optimizer that would update nothing.
mlir::FailureOr<UpdateByParameter> chooseOptimizers(mlir::func::FuncOp step,
                                                    llvm::StringRef optimizer,
                                                    llvm::StringRef group);

} // namespace fcdp
