// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "mlir/Support/LLVM.h"

namespace fcdp {

/// Compiles as asked; prints errors to `errors` and what was made to `output`.
mlir::LogicalResult compile(const CompileOptions &options,
                            llvm::raw_ostream &output,
                            llvm::raw_ostream &errors);

} // namespace fcdp
