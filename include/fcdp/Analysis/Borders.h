// SPDX-License-Identifier: Apache-2.0
//
// What is in flight when one function of a step ends and the next begins.
#pragma once

#include "fcdp/Analysis/StepFunctions.h"

namespace fcdp {

/// The state that `op` fills, or null.
mlir::FlatSymbolRefAttr getInto(mlir::Operation *op);

/// Whether `op` may be in flight when its function ends: it fills a state of
/// role `prefetched`, or notes a late sum.
bool mayLeave(mlir::Operation *op);

/// The state that `op`, which may leave, fills or adds to.
StateOp findLeavingState(mlir::Operation *op);

/// The states that are in flight when `function` ends, in the module's order;
/// each with the operation that is the last to write it.
llvm::SmallVector<std::pair<StateOp, mlir::Operation *>>
findLeaving(mlir::func::FuncOp function);

/// The release of what `op` makes, if it is on a stream: the value may be in
/// use when its function ends.
ReleaseOp findLateRelease(mlir::Operation *op);

/// The event of a planned token, be it recorded here or by the function before;
/// none where it is missing.
std::optional<int64_t> findEvent(mlir::Value token);

/// A place among the tokens that cross a border: what the functions on its far
/// side have in common, and the token's position.
using Crossing = std::pair<Role, unsigned>;
/// Where the token of `record` leaves the function; none if it stays.
std::optional<Crossing> findCrossing(RecordOp record);
/// Where the argument of that position enters `function`.
Crossing getArrival(mlir::func::FuncOp function, unsigned position);

/// Where compute has waited in `after` for what `release`, of a function that
/// may come before it, stands for; at the function's end if it does not.
mlir::Operation *findArrival(ReleaseOp release, mlir::func::FuncOp after);

} // namespace fcdp
