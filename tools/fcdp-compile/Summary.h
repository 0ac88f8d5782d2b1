// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Prints what a planned step stores, keeps in memory and sends.
void printSummary(mlir::ModuleOp module, llvm::raw_ostream &stream);

} // namespace fcdp
