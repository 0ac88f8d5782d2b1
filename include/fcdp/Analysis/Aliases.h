// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Operation.h"

namespace fcdp {

/// Returns whether `op` does nothing but give its one tensor operand another
/// shape.
bool isView(mlir::Operation *op);

/// Returns whether a result of `op` may share memory with its operands.
bool mayAlias(mlir::Operation *op);

/// Returns all operations that use the memory of `value`: its users, and the
/// users of all values that may alias it.
llvm::SmallVector<mlir::Operation *> collectMemoryUsers(mlir::Value value);

/// Returns the last operation of the block that uses the memory of `value`, or
/// the operation that defines `value` if there is none.
mlir::Operation *findLastMemoryUser(mlir::Value value);

} // namespace fcdp
