// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace fcdp {

/// Memory that the runtime takes from its pool while a function runs.
struct Activation {
  /// The operation that defines or uses the memory.
  mlir::Operation *op;
  /// Bytes of the values without the pool's tag.
  int64_t bytes;
  /// It is in use in [begin, end), in positions of the function's operations.
  int64_t begin, end;
};

/// Returns the results of a function's ATen operators by the order of their
/// allocation, and the gradients that the optimizer casts. A result is in use
/// from its operator to the last operation that reads it or a value that may
/// alias it. The runtime drops it there, because it issues operators in the
/// program's order. An operator that is not in the table of ATen operators is
/// assumed to make new memory and to keep the memory of its operands, so that
/// the sum is never too small.
///
/// In phase imported, where reductions are not known yet, gradients are in use
/// until they are computed.
///
/// Temporary memory of kernels is not included: it depends on the number of
/// threads and on the library's choice of algorithm.
///
/// The time is linear in the operations and their operands.
std::vector<Activation> findActivations(mlir::func::FuncOp function);

/// Returns the bytes of these values that are in use at each position.
std::vector<int64_t> measureActivations(mlir::func::FuncOp function);

} // namespace fcdp
