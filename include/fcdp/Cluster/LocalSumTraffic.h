// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"

#include <optional>

namespace fcdp {

/// Returns the bytes that another program reads and writes where the plan
/// executes `op`, to sum gradients over micro-batches on each rank. None if
/// `op` has no part in that, or if the program does as the plan
/// (SummedBy::plan).
std::optional<double> measureLocalSum(mlir::Operation *op,
                                      const LocalSums &sums);

} // namespace fcdp
