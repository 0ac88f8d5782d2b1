// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/Activations.h"
#include "fcdp/Planning/Memory/ArenaPacking.h"

namespace fcdp {

struct SharedPacking {
  PackingSolution values;
  /// The end of the arena, with values and the activations around them.
  int64_t end;
};

/// Places the values of `function` so that `activations`, which the runtime's
/// pool then places around them, end as low as possible. `values` counts time
/// in positions, and places from `stateBytes`, the end of states. It returns
/// the better of two packings: of the values alone, and of the values together
/// with all activations, as if the pool used those places. The end of values
/// never exceeds the arena.
SharedPacking packBesidePool(mlir::func::FuncOp function,
                             const PackingProblem &values,
                             llvm::ArrayRef<Activation> activations,
                             int64_t stateBytes);

/// Returns the bytes of the arena that are in use at each position of
/// `function`, independent of places.
std::vector<int64_t> measureUse(mlir::func::FuncOp function,
                                const PackingProblem &values,
                                llvm::ArrayRef<Activation> activations,
                                int64_t stateBytes);

} // namespace fcdp
