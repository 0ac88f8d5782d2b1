// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Residency/MessageCosts.h"
#include "fcdp/Planning/Residency/ResidencyPlanning.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Bytes of a rank's device, and of a node's host memory.
struct MemoryBudget {
  int64_t device = 0, host = 0;
};

/// Returns the problem of a module whose buckets have a layout and whose
/// collectives are still over all ranks, with the given decisions. Buckets are
/// in the order of the module. `accumulation` and `collectives` apply to
/// buckets without their own. If `collectives` is none, the solver chooses
/// them; flat is a choice for a bucket if its gather or reduction is faster
/// that way on idle links. `messages` prices what buckets send between nodes.
ResidencyProblem makeResidencyProblem(
    mlir::ModuleOp module, const CostModel &model, const MemoryBudget &budget,
    Accumulation accumulation,
    std::optional<Collectives> collectives = Collectives::two_level,
    const MessageCosts &messages = MessageCosts());

/// Returns one such problem for each of `accumulations`. The costs of
/// operations are computed once.
std::vector<ResidencyProblem> makeResidencyProblems(
    mlir::ModuleOp module, const CostModel &model, const MemoryBudget &budget,
    llvm::ArrayRef<Accumulation> accumulations,
    std::optional<Collectives> collectives, const MessageCosts &messages);

} // namespace fcdp
