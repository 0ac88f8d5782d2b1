// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/LiveRanges.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fcdp {

/// Returns the unit of each call of the step up to `end`, by its module path,
/// else by the parameters that it reads. A call without either belongs to the
/// unit of the calls before it if calls of a unit follow; otherwise it has
/// none.
llvm::DenseMap<mlir::Operation *, mlir::StringAttr>
findUnits(mlir::Operation *end, const LiveRanges &ranges);

/// Returns whether an operation of the forward pass, which ends with `end`,
/// reads a result of `call`, directly or through views, and `isInside` does not
/// hold for it.
bool isReadOutside(aten::CallOp call, mlir::Operation *end,
                   llvm::function_ref<bool(mlir::Operation *)> isInside);

} // namespace fcdp
