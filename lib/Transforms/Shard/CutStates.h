// SPDX-License-Identifier: Apache-2.0
//
// Over which ranks the states of buckets are cut, once the buckets are there.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// Whether `cutStates` can, and what is given of residencies is possible then.
bool canCutStates(mlir::ModuleOp module, Sharding sharding);

/// Cuts all buckets' states over the ranks of `sharding`. Requires that they
/// are cut over all ranks, and collectives over both axes. A copy is gathered
/// from what a rank owns then, and what it owns of a gradient from the reduced
/// shard: an all-reduce is a reduction followed by a gather.
void cutStates(mlir::ModuleOp module, Sharding sharding);

} // namespace fcdp
