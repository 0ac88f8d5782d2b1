// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "mlir/Support/LLVM.h"

namespace fcdp {

/// Compiles a step by its options. Prints errors to `errors` and a summary of
/// the result to `output`.
mlir::LogicalResult compile(const CompileOptions &options,
                            llvm::raw_ostream &output,
                            llvm::raw_ostream &errors);

} // namespace fcdp
