// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Residency/WireChoice.h"

namespace fcdp {

/// Writes what each bucket sends between nodes, where nothing is given. Buckets
/// have a residency. `model` may be null unless gathers are `automatic`.
void applyWires(mlir::ModuleOp module, const WireChoice &choice,
                const CostModel *model);

} // namespace fcdp
