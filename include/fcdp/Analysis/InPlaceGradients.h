// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A gradient that its operator writes directly to its place in the bucket.
struct InPlaceGradient {
  aten::CallOp producer;
  mlir::FlatSymbolRefAttr parameter;
};

/// Returns the gradients of `pack` that may be written in place. The operator
/// of such a gradient has an out-variant, and only `pack` reads the gradient,
/// directly or through views that show all of it in order. Returns none if the
/// result of `pack` is in a state's memory or still in use when the function
/// ends, because other data may be in that memory before the pack.
llvm::SmallVector<InPlaceGradient> findInPlaceGradients(PackOp pack);

/// Returns the reason why `gradient`, a value that `pack` packs, cannot be
/// written in place, worded to follow "because". Returns an empty string if it
/// can.
std::string findReasonToCopy(PackOp pack, mlir::Value gradient);

/// Returns the gradients that are written in place by the pack's attribute.
llvm::SmallVector<InPlaceGradient> getInPlaceGradients(PackOp pack);

/// Returns the operation that first writes to the memory of `op`'s result: the
/// first call that writes a gradient in place if `op` is a pack that has one,
/// and `op` otherwise.
mlir::Operation *getFirstWriter(mlir::Operation *op);

/// Returns, for each call of `function` that writes gradients in place, the
/// pack that they belong to.
llvm::DenseMap<mlir::Operation *, PackOp>
collectInPlaceProducers(mlir::Operation *function);

} // namespace fcdp
