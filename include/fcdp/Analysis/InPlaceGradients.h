// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A gradient that the call which makes it writes to its place in the bucket.
struct InPlaceGradient {
  aten::CallOp producer;
  mlir::FlatSymbolRefAttr parameter;
};

/// Returns the gradients of `pack` that may be made in place: by an operator
/// with an out-variant, and seen by nothing but `pack`, be it through views of
/// all of it in order. There are none if the memory of `pack` is a state's, or
/// in use when the function ends: it may be another's in front of the pack.
llvm::SmallVector<InPlaceGradient> findInPlaceGradients(PackOp pack);

/// Returns the reason why `gradient`, a value that `pack` packs, cannot be made
/// in place, as it follows "because"; an empty string if it may be.
std::string findReasonToCopy(PackOp pack, mlir::Value gradient);

/// Returns the gradients that are written in place by the pack's attribute.
llvm::SmallVector<InPlaceGradient> getInPlaceGradients(PackOp pack);

/// The operation that writes to the memory of `op`'s result first: of a pack
/// whose gradients are made in place the first call that makes one, else `op`.
mlir::Operation *getFirstWriter(mlir::Operation *op);

/// The packs whose gradients each call of `function` makes in place.
llvm::DenseMap<mlir::Operation *, PackOp>
collectInPlaceProducers(mlir::Operation *function);

} // namespace fcdp
