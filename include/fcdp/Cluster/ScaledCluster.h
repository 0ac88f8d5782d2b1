// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/WorkKind.h"

namespace fcdp {

/// Returns `cluster` with one input `factor` times as fast: rates are
/// multiplied, and latencies divided by it. The result is for the cost model
/// only, and its rates may exceed its peak rates.
Cluster scaled(Cluster cluster, CostInput input, double factor);

/// Returns whether costs on `cluster` depend on `input` at all.
bool isUsed(const Cluster &cluster, CostInput input);

/// Returns whether the cost of work of `kind` may depend on `input`, apart from
/// the time in which the host issues it.
bool dependsOn(WorkKind kind, CostInput input);

} // namespace fcdp
