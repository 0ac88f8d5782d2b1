// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Attributes.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// Parses `adamw`, `sgd` or `lion`, followed by `,name=value` with PyTorch's
/// names: adamw has lr, beta1, beta2, eps and weight_decay, sgd has lr,
/// momentum, dampening, weight_decay and nesterov (0 or 1), lion has lr, beta1,
/// beta2 and weight_decay. Omitted settings have the defaults of PyTorch, or of
/// Lion's authors. Returns an OptimizerAttrInterface. An error names the bad
/// part and the accepted values.
llvm::Expected<mlir::Attribute> parseOptimizer(llvm::StringRef spec,
                                               mlir::MLIRContext *context);

} // namespace fcdp
