// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Cluster.h"

namespace fcdp {

/// Returns `cluster` with one input `factor` times as fast: rates are
/// multiplied, and latencies divided by it. It is for the cost model only, and
/// may be faster than its peaks.
Cluster scaled(Cluster cluster, CostInput input, double factor);

/// Returns whether costs on `cluster` depend on `input` at all.
bool isUsed(const Cluster &cluster, CostInput input);

} // namespace fcdp
