// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace fcdp::pt2 {

/// Finds the tables that the values of each integer input index, and writes the
/// least number of rows to fcdp.input as its limit. It is conservative: an
/// input whose values are changed before the lookup gets no limit.
void annotateIndexLimits(mlir::ModuleOp module);

} // namespace fcdp::pt2
