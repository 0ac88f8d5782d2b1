// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Checks that no value of a buffer is used after the buffer was given its
/// next value: a buffer has one memory, where the value would have changed.
mlir::LogicalResult verifyBufferWrites(mlir::func::FuncOp function);

} // namespace fcdp
