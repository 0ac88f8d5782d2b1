// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Analysis/Fetches.h"
#include "fcdp/Analysis/GradientSums.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Planning/Overlap/OverlapPlanning.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// The problem of a function in phase sharded, with two-level collectives if
/// its buckets have them, with accumulation and caches applied, and with
/// nothing issued ahead. Distances that the module gives are fixed.
class FunctionOverlap {
public:
  FunctionOverlap(mlir::func::FuncOp function, const CostModel &model,
                  int64_t deviceBudget);

  const OverlapProblem &getProblem() const { return problem; }
  /// Sets on each fetch the number of units that it is issued ahead, and on
  /// each accumulate that may be delayed the number of units over which
  /// reductions are in flight. Given attributes stay.
  void write(const OverlapSolution &solution);

private:
  class Builder;

  OverlapProblem problem;
  llvm::SmallVector<Fetch> fetches;
  /// The accumulates of the problem's reductions.
  llvm::SmallVector<GradientSum> sums;
};

/// Decides the overlap of each function of `module`, unless the module gives
/// it, and sets the attributes. `visit` is called for each function that was
/// decided. Fails if a function does not fit in `deviceBudget` bytes. If
/// `mayMove` is set, it is tried again with all values in host memory that
/// --fcdp-decide-activations may put there.
llvm::Error decideOverlap(
    mlir::ModuleOp module, const CostModel &model, int64_t deviceBudget,
    llvm::function_ref<void(mlir::func::FuncOp, const OverlapProblem &,
                            const OverlapSolution &)>
        visit = nullptr,
    bool mayMove = false);

} // namespace fcdp
