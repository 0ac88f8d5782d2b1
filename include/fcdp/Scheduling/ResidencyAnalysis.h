// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Scheduling/ResidencyPlanning.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

struct ResidencyLimits {
  /// Bytes of a rank's device, and of a node's host memory.
  int64_t deviceBytes = 0, hostBytes = 0;
  /// Uses that a copy is fetched ahead.
  int64_t prefetch = 1;
};

/// The problem of a module whose buckets are laid out and whose collectives are
/// over all ranks still, with the given decisions. Buckets are in the order of
/// the module; where their accumulation is not given it is `accumulation`.
ResidencyProblem makeResidencyProblem(mlir::ModuleOp module,
                                      const CostModel &model,
                                      const ResidencyLimits &limits,
                                      Accumulation accumulation);

} // namespace fcdp
