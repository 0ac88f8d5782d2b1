// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Simulation/LowerBound.h"
#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// For each resource, the seconds of one optimizer step of many that no
/// schedule with these operations beats: operators and packing keep the
/// program's order, gathers of a stream and reductions of a stream theirs, what
/// reads a value or state follows what made it, and each resource does one
/// thing after the other. The first gather's fill and the last reduction's
/// drain are in it. What may overlap with the step before or behind counts for
/// its resource only. Pre: the phase is sharded or later.
std::array<double, kNumResources>
boundStep(mlir::ModuleOp module,
          llvm::function_ref<Cost(mlir::Operation *)> costOf);

} // namespace fcdp
