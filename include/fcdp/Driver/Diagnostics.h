// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Diagnostics.h"

namespace fcdp {

/// Prints diagnostics as `file:line: error: message`, with the module path of
/// the user's code where it is known.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &stream);

private:
  mlir::ScopedDiagnosticHandler handler;
};

/// Lets the context print the decisions of passes, and what they could not do,
/// as `file:line: remark: message` from now on. Analysis remarks stay silent.
mlir::LogicalResult printRemarks(mlir::MLIRContext &context,
                                 llvm::raw_ostream &stream);

} // namespace fcdp
