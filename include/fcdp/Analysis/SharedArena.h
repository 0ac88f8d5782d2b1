// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Analysis/Activations.h"

namespace fcdp {

/// Places the values of `function` so that what the runtime's pool then gives
/// around them, `activations`, ends as low as possible. `values` counts time in
/// positions and places from `stateBytes` on, where states end. Of several ways
/// the best is taken: values by themselves, and values together with all
/// activations, as if the pool were to follow that. Where values end is never
/// more than the arena needs.
PackingSolution packBesidePool(mlir::func::FuncOp function,
                               const PackingProblem &values,
                               llvm::ArrayRef<Activation> activations,
                               int64_t stateBytes);

} // namespace fcdp
