// SPDX-License-Identifier: Apache-2.0
//
// Finds the operations whose results are in planned memory, and the states that
// accumulate gradients.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

/// States and values start at multiples of this many bytes in an arena.
inline constexpr int64_t kBufferAlignment = 256;

/// Returns the operation whose result lives as long as the scratch memory of
/// `op`, which must need some. This is the operation that defines the operand
/// if it has a buffer, and `op` otherwise.
mlir::Operation *getScratchOwner(BufferedOpInterface op);

/// Sets the strides, in bytes, between the ranks' inputs of `gather` inside its
/// result. The stride of an axis that the gather does not use stays as it is.
void addStrides(CollectiveOpInterface gather, int64_t &nodeStride,
                int64_t &localStride);

/// Returns the states that accumulate gradients. The keys are the names that
/// `fcdp.accumulate` uses: the bucket's name for a state of role `grad`, the
/// state's own name for all others.
llvm::MapVector<mlir::StringAttr, StateOp>
collectAccumulators(mlir::ModuleOp module);

} // namespace fcdp
