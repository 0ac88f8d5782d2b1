// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Simulation/LowerBound.h"
#include "mlir/IR/BuiltinOps.h"

namespace fcdp {

/// Returns for each resource a lower bound on the seconds of one optimizer step
/// in a long run, over all schedules of these operations. Operators and packs
/// keep the program's order, and so do the gathers of a stream and the
/// reductions of a stream. An operation that reads a value or a state follows
/// the one that wrote it, and each resource does one thing at a time. The bound
/// includes the fill of the first gather and the drain of the last reduction.
/// Work that may overlap with the step before or after it counts for its
/// resource only. Requires phase sharded or later. If a step has several
/// shapes, the bound is for the greatest variant.
std::array<double, kNumResources>
boundStep(mlir::ModuleOp module,
          llvm::function_ref<Cost(mlir::Operation *)> costOf);

} // namespace fcdp
