// SPDX-License-Identifier: Apache-2.0
//
// Adds further shapes to a step.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// Adds `variant`, the same step on greater inputs, to the step `module` as a
/// function of its own. Both modules are in phase imported. Parameters and
/// persistent buffers of one name are shared. Emits an error that names both
/// archives if the variant has other parameters or inputs, or if the shape of
/// an input is smaller than in the variant before. After an error, `module`
/// must not be used.
mlir::LogicalResult addVariant(mlir::ModuleOp module, mlir::ModuleOp variant);

} // namespace fcdp
