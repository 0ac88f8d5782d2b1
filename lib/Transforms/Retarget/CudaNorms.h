// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Replaces each RMS norm, and its backward pass, by the kernels that PyTorch
/// has for CUDA only. A norm that rounds at other points than the kernels stays
/// as it is, in whole or in part.
void retargetNorms(mlir::func::FuncOp function);

} // namespace fcdp
