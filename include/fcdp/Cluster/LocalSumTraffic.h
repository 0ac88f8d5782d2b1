// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"

#include <optional>

namespace fcdp {

/// Returns the bytes that another program reads and writes in place of `op` to
/// accumulate gradients over micro-batches on each rank. Returns none if `op`
/// has no part in that, or if the program works as the plan does
/// (SummedBy::plan).
std::optional<double> measureLocalSum(mlir::Operation *op,
                                      const LocalSums &sums);

} // namespace fcdp
