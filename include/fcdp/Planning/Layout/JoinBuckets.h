// SPDX-License-Identifier: Apache-2.0
//
// Joins the buckets of units to larger ones.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// Returns whether `joinBuckets` may be called. The module must leave merging
/// open, and its buckets must be as --fcdp-bucket makes them, sharded over all
/// ranks.
bool canJoinBuckets(mlir::ModuleOp module);

/// Returns limits in bytes, at most `most`, with which joinBuckets may make a
/// step faster. A step without joined buckets takes `seconds`.
llvm::SmallVector<int64_t> findJoinLimits(mlir::ModuleOp module,
                                          const CostModel &model, int64_t most,
                                          double seconds);

/// Merges neighbours that differ only in their unit and have no further
/// decisions, up to `limit` bytes of a gathered copy; 0 merges none. The result
/// is that of --fcdp-bucket with this limit. Fails, without changing the
/// functions, if a bucket would have too many elements.
llvm::Error joinBuckets(mlir::ModuleOp module, int64_t limit);

} // namespace fcdp
