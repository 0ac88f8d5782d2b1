// SPDX-License-Identifier: Apache-2.0
//
// The kinds of work that operations do. Reports show them, and ScaledCluster.h
// says on which figures of a cluster their costs may depend.
#pragma once

#include "dialects/Fcdp/Enums.h"

#include "mlir/IR/Operation.h"

namespace fcdp {

/// Returns the kind of an operation of any dialect; `none` if it takes no time.
WorkKind getWorkKind(mlir::Operation *op);

/// Returns whether work of `kind` is on host memory, over the link to it.
bool isOnHostMemory(WorkKind kind);

/// Returns whether `kind` is work of an optimizer.
bool isOfOptimizer(WorkKind kind);

} // namespace fcdp
