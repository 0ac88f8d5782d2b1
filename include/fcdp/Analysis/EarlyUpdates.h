// SPDX-License-Identifier: Apache-2.0
//
// Updates that run in the last micro-batch of a step, as soon as the gradient
// of their bucket is complete.
#pragma once

#include "fcdp/Analysis/StepFunctions.h"
#include "llvm/ADT/DenseSet.h"

namespace fcdp {

/// Returns the names of the buckets whose updates may leave @update: their
/// states are not on the device, so that an update takes long, each last
/// micro-batch completes their gradients, and nothing needs all gradients.
llvm::DenseSet<mlir::StringAttr> findEarlyCandidates(mlir::ModuleOp module);

/// Returns the names of the buckets that micro-batches update.
llvm::DenseSet<mlir::StringAttr> findEarlyBuckets(mlir::ModuleOp module);

/// Returns the accumulators that have the same memory, because each is in use
/// only from its reduction to its update in the same function.
llvm::SmallVector<StateOp> findSharedGradients(mlir::ModuleOp module);

} // namespace fcdp
