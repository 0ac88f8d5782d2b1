// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Gives the statistics that norms return the types that CUDA's kernels give
/// them. Users other than backward passes get them in the former type.
void retargetStatistics(mlir::func::FuncOp function);

} // namespace fcdp
