// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "plan/Plan_generated.h"

namespace fcdp {

/// Describes the functions of `module`, whose operations in the plan are
/// `calls`, and the arenas: which memory is reserved when, where results of
/// operators are expected, and what each function sends.
mlir::LogicalResult fillFunctions(plan::PlanT &plan, mlir::ModuleOp module,
                                  llvm::ArrayRef<mlir::Operation *> calls);

} // namespace fcdp
