// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Analysis/LiveRanges.h"

namespace fcdp {

/// The unit of each call of `step` up to `end`, by its module path, else by the
/// parameters that it reads. A call without either belongs to the unit of the
/// calls before it if calls of a unit follow; otherwise it has none.
llvm::DenseMap<mlir::Operation *, mlir::StringAttr>
findUnits(mlir::Operation *end, const LiveRanges &ranges);

} // namespace fcdp
