// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Places.h"
#include "fcdp/Conversion/Manifest.h"

namespace fcdp {

/// The calls of the module's functions, in order. Refuses what has no call,
/// and functions that are no members of a step's family.
mlir::FailureOr<std::vector<RuntimeCall>> collectCalls(mlir::ModuleOp module,
                                                       const Places &places);

} // namespace fcdp
