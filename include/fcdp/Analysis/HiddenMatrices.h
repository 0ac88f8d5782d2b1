// SPDX-License-Identifier: Apache-2.0
//
// The matrices of a model's hidden layers, which Muon updates.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace fcdp {

/// Returns the parameters of two dimensions that are neither embeddings nor
/// heads. An embedding is one whose rows `aten.embedding` looks up. A head is
/// the last matrix before the loss: its product reaches the loss without
/// another parameter of two dimensions. A matrix that the loss does not depend
/// on is neither an embedding nor a head. Requires reads in the form of
/// `fcdp.read_parameter`.
llvm::DenseSet<mlir::StringAttr> findHiddenMatrices(mlir::func::FuncOp step);

} // namespace fcdp
