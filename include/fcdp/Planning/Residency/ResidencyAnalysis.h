// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Planning/Residency/ResidencyPlanning.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Bytes of a rank's device, and of a node's host memory.
struct MemoryBudget {
  int64_t device = 0, host = 0;
};

/// The problem of a module whose buckets are laid out and whose collectives are
/// over all ranks still, with the given decisions. Buckets are in the order of
/// the module; where their accumulation is not given it is `accumulation`.
/// Where their collectives are not given they are `collectives` or, if that is
/// none, to be chosen: flat is offered to a bucket for which one gather or
/// reduction, on idle links, is faster so.
ResidencyProblem makeResidencyProblem(
    mlir::ModuleOp module, const CostModel &model, const MemoryBudget &budget,
    Accumulation accumulation,
    std::optional<Collectives> collectives = Collectives::two_level);

} // namespace fcdp
