// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace fcdp::pt2 {

/// Finds for each integer input the tables that its values index, and writes
/// the smallest bound to fcdp.input. Errs on the side of no limit: an input
/// whose values are changed on the way gets none.
void annotateIndexLimits(mlir::ModuleOp module);

} // namespace fcdp::pt2
