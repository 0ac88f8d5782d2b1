// SPDX-License-Identifier: Apache-2.0
//
// The decision which optimizer updates each parameter.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp {

/// What updates a trained parameter.
struct ParameterUpdate {
  mlir::Attribute optimizer;
  /// The settings of its group; null if they are the optimizer's.
  GroupAttr group;
};

/// By the parameter's symbol.
using UpdateByParameter = llvm::DenseMap<mlir::StringAttr, ParameterUpdate>;

/// Chooses the optimizer of each parameter that `step` trains, by the options
/// `optimizer` and `group`, and its settings by the latter. Reports options
/// that are wrong, and an optimizer that would update nothing.
mlir::FailureOr<UpdateByParameter> chooseOptimizers(mlir::func::FuncOp step,
                                                    llvm::StringRef optimizer,
                                                    llvm::StringRef group);

} // namespace fcdp
