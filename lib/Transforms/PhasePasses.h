// SPDX-License-Identifier: Apache-2.0
//
// The lists of passes that apply decisions. The pipeline runs them on the step,
// and the search of strategy `auto` runs them on each plan that it simulates.
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "mlir/Pass/PassManager.h"

namespace fcdp {

/// Appends the passes that apply the decisions on buckets. All collectives must
/// still be over all ranks.
void buildDecided(mlir::OpPassManager &pm);

/// Appends the passes that bring gathers and reductions into their final order.
void buildOrdered(mlir::OpPassManager &pm);

/// Appends the passes from phase sharded to phase scheduled. The cluster
/// decides when values of the forward pass are copied.
void buildScheduled(mlir::OpPassManager &pm, const Cluster &cluster);

} // namespace fcdp
