// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Simulation/LowerBound.h"
#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// For each resource, the seconds that no schedule of one optimizer step with
/// these operations beats, the first gather's fill and the last reduction's
/// drain included: what reads a value or state follows what made it, and each
/// resource does one thing after the other. Steps follow each other: an update
/// ends before the next step begins. Pre: the phase is sharded or later.
std::array<double, kNumResources>
boundStep(mlir::ModuleOp module,
          llvm::function_ref<Cost(mlir::Operation *)> costOf);

} // namespace fcdp
