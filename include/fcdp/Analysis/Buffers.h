// SPDX-License-Identifier: Apache-2.0
//
// Operations whose results live in memory that the plan gives and takes back,
// and the states that accumulate gradients.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// States and values start at multiples of this many bytes in an arena.
inline constexpr int64_t kBufferAlignment = 256;

/// Returns the operation whose result lives as long as the scratch memory of
/// `op`, which must need some: the one that defines the operand if that has a
/// buffer, or else `op`.
mlir::Operation *getScratchOwner(BufferedOpInterface op);

/// Sets the strides, in bytes, of the place that each rank's input of `gather`
/// has inside the result; that of an axis which it is not over is left alone.
void addStrides(AllGatherOp gather, int64_t &nodeStride, int64_t &localStride);

/// The states that hold sums of gradients: those of role `grad` by their
/// bucket's name, as `fcdp.accumulate` names them, all others by their own.
llvm::DenseMap<mlir::StringAttr, StateOp>
collectAccumulators(mlir::ModuleOp module);

} // namespace fcdp
