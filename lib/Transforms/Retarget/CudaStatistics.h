// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Changes the types of the statistics that norms return to those of CUDA's
/// kernels. Users other than backward passes get them cast to the former type.
void retargetStatistics(mlir::func::FuncOp function);

} // namespace fcdp
