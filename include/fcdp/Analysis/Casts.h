// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace fcdp {

/// The type that `op` casts to if it does nothing else, or null. A copy to
/// another memory format is more than a cast.
mlir::FloatType getCastType(mlir::Operation *op);

/// Whether `op` shows each element of its operand once, in the same type. The
/// cast of such a view has the view's own strides, so that the view of the cast
/// is as good as the cast of the view; a slice's cast would be compact.
bool isWholeView(mlir::Operation *op);

/// The one narrower type that all reads of `value`, through whole views or
/// directly, cast it to; null if there is none.
mlir::FloatType findNarrowReadType(mlir::Value value);

} // namespace fcdp
