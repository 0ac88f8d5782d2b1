// SPDX-License-Identifier: Apache-2.0
//
// Larger buckets in place of the units', once these are there.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// Returns whether `joinBuckets` may be called: merging is left open, and the
/// buckets are as --fcdp-bucket makes them, sharded over all ranks.
bool canJoinBuckets(mlir::ModuleOp module);

/// Limits that joinBuckets may make a step faster with than without, in bytes.
/// All are at most `most`. A step takes `seconds` without.
llvm::SmallVector<int64_t> findJoinLimits(mlir::ModuleOp module,
                                          const CostModel &model, int64_t most,
                                          double seconds);

/// Merges neighbours that differ only in their unit and have no further
/// decisions, up to `limit` bytes of a gathered copy; 0 merges none. The result
/// is that of --fcdp-bucket with this limit. Fails, without changing the
/// functions, if a bucket would have too many elements.
llvm::Error joinBuckets(mlir::ModuleOp module, int64_t limit);

} // namespace fcdp
