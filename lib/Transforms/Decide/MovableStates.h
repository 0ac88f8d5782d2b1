// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A bucket whose states may leave the device.
struct MovableStates {
  BucketOp bucket;
  OptimizerAttrInterface optimizer;
  int64_t bytes = 0;
};

/// Returns the buckets with states that an update changes and that have no
/// given place.
llvm::SmallVector<MovableStates> findMovableStates(mlir::ModuleOp module);

/// Moves the states of the bucket of that name to `arena`. The update loads
/// pieces of at most `pieceBytes`.
void moveStates(mlir::ModuleOp module, const MovableStates &states, Arena arena,
                int64_t pieceBytes);

} // namespace fcdp
