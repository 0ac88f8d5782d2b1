// SPDX-License-Identifier: Apache-2.0
//
// Operations and tokens that are in flight from one function of a step to the
// next.
#pragma once

#include "fcdp/Analysis/StepFunctions.h"

namespace fcdp {

/// Returns whether `op` may be in flight when its function ends: it fills a
/// state of role `prefetched`, or accumulates a late sum.
bool mayBeInFlight(mlir::Operation *op);

/// Returns the state that `op`, which may be in flight, fills or adds to.
StateOp findInFlightState(mlir::Operation *op);

/// Returns the states that are in flight when `function` ends, in the module's
/// order, each with the last operation that writes it.
llvm::SmallVector<std::pair<StateOp, mlir::Operation *>>
findInFlightStates(mlir::func::FuncOp function);

/// Returns the release of `op`'s result if it is on a stream: the value may be
/// in flight when its function ends. Null otherwise.
ReleaseOp findInFlightRelease(mlir::Operation *op);

/// Returns the event of a planned token, which this function or the one before
/// it records. Returns none if the token has no event.
std::optional<int64_t> findEvent(mlir::Value token);

/// A token that crosses a function boundary: the boundary, and the token's
/// position among those that cross it.
using BoundaryToken = std::pair<FunctionBoundary, unsigned>;
/// Returns the live-out token that `record` makes; none if it is used here
/// only.
std::optional<BoundaryToken> findLiveOut(RecordOp record);
/// Returns the live-in token that is the argument `position` of `function`.
BoundaryToken getLiveIn(mlir::func::FuncOp function, unsigned position);

/// Returns the operation of `after`, a function that may follow, at which
/// compute has waited for the token of `release`. Returns the end of `after` if
/// it does not wait.
mlir::Operation *findLiveInWait(ReleaseOp release, mlir::func::FuncOp after);

} // namespace fcdp
