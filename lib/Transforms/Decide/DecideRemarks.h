// SPDX-License-Identifier: Apache-2.0
//
// The remarks of --fcdp-decide: the decision on each bucket, its savings and
// its cost.
#pragma once

#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// Emits a remark for each bucket of a decided module with the place of its
/// copy. `model` gives times; without one, gathers are counted. Does nothing if
/// remarks are off. Requires collectives over all ranks.
void remarkOnResidencies(mlir::ModuleOp module, const CostModel *model);

} // namespace fcdp
