// SPDX-License-Identifier: Apache-2.0
//
// The kinds of work that operations do. Reports show them, and ScaledCluster.h
// says on which figures of a cluster their costs may depend.
#pragma once

#include "mlir/IR/Operation.h"

#include <cstdint>

namespace fcdp {

enum class WorkKind : uint8_t {
  none,
  operators,   ///< an ATen operator
  memory,      ///< only accesses the device's memory
  collective,  ///< sends over links between ranks
  copy,        ///< copies to or from host memory
  update,      ///< the optimizer's update
  agreement,   ///< works on all gradients, for which ranks exchange numbers
  outerUpdate, ///< works on outer states, which are in host memory
};

/// Returns the kind of an operation of any dialect; `none` if it takes no time.
WorkKind getWorkKind(mlir::Operation *op);

/// Returns whether work of `kind` is on host memory, over the link to it.
bool isOnHostMemory(WorkKind kind);

/// Returns whether `kind` is work of an optimizer.
bool isOfOptimizer(WorkKind kind);

} // namespace fcdp
