// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Operation.h"

namespace fcdp {

/// Whether `op` only shows its one tensor operand in another shape.
bool isView(mlir::Operation *op);

/// Whether a result of `op` may be memory of its operands.
bool mayAlias(mlir::Operation *op);

/// All operations that use `value`'s memory: its users, and users of whatever
/// may alias it.
llvm::SmallVector<mlir::Operation *> collectMemoryUsers(mlir::Value value);

/// Returns the last of them in the block, or the operation that defines `value`
/// if there is none.
mlir::Operation *findLastMemoryUser(mlir::Value value);

} // namespace fcdp
