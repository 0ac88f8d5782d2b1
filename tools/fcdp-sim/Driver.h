// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "mlir/Support/LLVM.h"

namespace fcdp {

/// Simulates by the options. Prints errors to `errors` and results to `output`.
mlir::LogicalResult simulate(const SimulateOptions &options,
                             llvm::raw_ostream &output,
                             llvm::raw_ostream &errors);

} // namespace fcdp
