// SPDX-License-Identifier: Apache-2.0
//
// Changes the ranks over which the states of buckets are sharded.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// Returns whether `shardStates` may be called: its requirements hold, and the
/// given residencies are possible with this sharding.
bool canShardStates(mlir::ModuleOp module, Sharding sharding);

/// Shards all buckets' states over the ranks of `sharding`. Requires states
/// that are sharded over all ranks, and collectives over both axes. Afterwards
/// a copy is gathered from the larger part that each rank owns. A rank's part
/// of a gradient is gathered from the reduced shards: an all-reduce is a
/// reduction followed by a gather.
void shardStates(mlir::ModuleOp module, Sharding sharding);

} // namespace fcdp
