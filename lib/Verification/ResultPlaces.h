// SPDX-License-Identifier: Apache-2.0
//
// The places of operator results in the device arena.
#pragma once

#include "fcdp/Verification/PlanProofs.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

namespace fcdp {

/// Proves that each operator result of `module` has a place in `results`, and
/// that no other result and no buffer uses these bytes while the result is in
/// use. Up to `arenaEnd`, where buffers end, the place must be in `free`.
/// Returns the end of all results.
mlir::FailureOr<int64_t>
verifyResultPlaces(mlir::ModuleOp module, llvm::ArrayRef<FreeRange> free,
                   llvm::ArrayRef<PlacedResult> results, int64_t arenaEnd);

} // namespace fcdp
