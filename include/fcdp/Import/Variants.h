// SPDX-License-Identifier: Apache-2.0
//
// A step of several shapes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// Adds `variant`, the same step on greater inputs, to the step `module` as a
/// function of its own. Both are imported. Parameters and persistent buffers
/// are the same by name. Emits an error that names both archives if the variant
/// has other parameters or inputs, or if the shape of an input is smaller than
/// that of the variant before; then `module` is of no use.
mlir::LogicalResult addVariant(mlir::ModuleOp module, mlir::ModuleOp variant);

} // namespace fcdp
