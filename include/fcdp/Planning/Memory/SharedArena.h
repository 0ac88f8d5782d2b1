// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/Activations.h"
#include "fcdp/Planning/Memory/ArenaPacking.h"

namespace fcdp {

struct SharedPacking {
  PackingSolution values;
  /// The end of the arena: values, and activations around them.
  int64_t end;
};

/// Places the values of `function` so that what the runtime's pool then gives
/// around them, `activations`, ends as low as possible. `values` counts time in
/// positions and places from `stateBytes` on, where states end. Of several ways
/// the best is taken: values by themselves, and values together with all
/// activations, as if the pool were to follow that. Where values end is never
/// more than the arena needs.
SharedPacking packBesidePool(mlir::func::FuncOp function,
                             const PackingProblem &values,
                             llvm::ArrayRef<Activation> activations,
                             int64_t stateBytes);

/// Returns the bytes of the arena that are in use at each position of
/// `function`, whatever places they have.
std::vector<int64_t> measureUse(mlir::func::FuncOp function,
                                const PackingProblem &values,
                                llvm::ArrayRef<Activation> activations,
                                int64_t stateBytes);

} // namespace fcdp
