// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Loss/LossPlanning.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Sets the peaks of the problem for `replaced`, the operations of a loss in an
/// imported function that become one at the place of `loss`, with `results` of
/// that many bytes besides its workspace. Nothing is recomputed, and gradients
/// count until they are computed.
void measureLossPeaks(LossProblem &problem, mlir::func::FuncOp function,
                      llvm::ArrayRef<mlir::Operation *> replaced,
                      mlir::Operation *loss, int64_t results);

/// Sets the peaks of the problem from two functions that recompute values as
/// the step will: `whole`, and one in which the operation `loss` computes the
/// loss in chunks, with a workspace of that many bytes.
void measureRecomputedPeaks(LossProblem &problem, mlir::func::FuncOp whole,
                            mlir::Operation *loss, int64_t workspace);

} // namespace fcdp
