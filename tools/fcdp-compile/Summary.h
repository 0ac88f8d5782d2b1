// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Prints what a planned step stores, keeps in memory and sends. An error is
/// reported.
mlir::LogicalResult printSummary(mlir::ModuleOp module,
                                 llvm::raw_ostream &stream);

/// Prints how long a step takes on `cluster`, whose nodes and ranks are those
/// of the module's mesh, and what of it is waiting.
void printPrediction(mlir::ModuleOp module, const Cluster &cluster,
                     llvm::raw_ostream &stream);

} // namespace fcdp
