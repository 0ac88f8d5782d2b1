// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Places.h"

#include <vector>

namespace fcdp {

/// Returns the operations of the module's functions that do something, in
/// order: those of the plan. Refuses what the runtime has no operation for, and
/// functions that are not members of a step's family.
mlir::FailureOr<std::vector<mlir::Operation *>>
collectCalls(mlir::ModuleOp module, const Places &places);

} // namespace fcdp
