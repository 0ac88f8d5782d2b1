// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Cluster.h"

namespace fcdp {

/// Returns `cluster` with one input `factor` times as fast: rates are
/// multiplied, and latencies divided by it. The result is for the cost model
/// only, and its rates may exceed its peak rates.
Cluster scaled(Cluster cluster, CostInput input, double factor);

/// Returns whether costs on `cluster` depend on `input` at all.
bool isUsed(const Cluster &cluster, CostInput input);

} // namespace fcdp
