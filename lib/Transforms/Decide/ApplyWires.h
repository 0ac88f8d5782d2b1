// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Residency/WireChoice.h"

namespace fcdp {

/// Sets the wires between nodes of each bucket that does not have them. Buckets
/// must have a residency. `model` may be null unless gathers are `automatic`.
void applyWires(mlir::ModuleOp module, const WireChoice &choice,
                const CostModel *model);

} // namespace fcdp
