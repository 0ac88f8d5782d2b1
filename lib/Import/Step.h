// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Declarations.h"
#include "Program.h"

#include "mlir/IR/Builders.h"

namespace fcdp::pt2 {

/// Adds `func.func @step()`: reads, one aten.call per node, the loss, gradients
/// and updated buffers.
llvm::Error emitStep(const Program &program, const Declarations &declarations,
                     mlir::Location location, mlir::OpBuilder &builder);

} // namespace fcdp::pt2
