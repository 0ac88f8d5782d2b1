// SPDX-License-Identifier: Apache-2.0
//
// The lists of passes that carry decisions out. The pipeline runs them on the
// step, and the search of strategy `auto` on each plan that it simulates.
#pragma once

#include "mlir/Pass/PassManager.h"

namespace fcdp {

/// Appends the passes that apply what is decided on buckets whose collectives
/// are over all ranks still.
void buildDecided(mlir::OpPassManager &pm);

/// Appends the passes from phase sharded to phase scheduled.
void buildScheduled(mlir::OpPassManager &pm);

} // namespace fcdp
