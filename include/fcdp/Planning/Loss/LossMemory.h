// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Loss/LossPlanning.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Sets the peaks of the problem for `replaced`, the operations of a loss in an
/// imported function that become one at the place of `loss`, with `results` of
/// that many bytes besides its workspace. Recomputation is not known yet, and
/// gradients count until they are computed.
void measureLossPeaks(LossProblem &problem, mlir::func::FuncOp function,
                      llvm::ArrayRef<mlir::Operation *> replaced,
                      mlir::Operation *loss, int64_t results);

} // namespace fcdp
