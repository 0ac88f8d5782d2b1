// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace fcdp {

/// Returns the type that `op` casts to if it does nothing else, or null. A copy
/// to another memory format is more than a cast.
mlir::FloatType getCastType(mlir::Operation *op);

/// Returns whether `op` shows each element of its operand once, in the same
/// type. A cast of such a view keeps the view's strides, so the cast and the
/// view may be exchanged. The cast of a slice would be compact.
bool isWholeView(mlir::Operation *op);

/// Returns the narrower type that all reads of `value`, directly or through
/// whole views, cast it to, or null if they do not agree on one.
mlir::FloatType findNarrowReadType(mlir::Value value);

} // namespace fcdp
