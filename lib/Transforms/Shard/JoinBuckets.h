// SPDX-License-Identifier: Apache-2.0
//
// Larger buckets in place of the units', once these are there.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// Whether `joinBuckets` can: the buckets are left open, and as --fcdp-bucket
/// makes them, cut over all ranks.
bool canJoinBuckets(mlir::ModuleOp module);

/// Limits that joinBuckets may make a step faster with than without, in bytes.
/// All are at most `most`. A step takes `seconds` without.
llvm::SmallVector<int64_t> findJoinLimits(mlir::ModuleOp module,
                                          const CostModel &model, int64_t most,
                                          double seconds);

/// Merges neighbours that differ in nothing but their unit, and about which
/// nothing else is decided, up to `limit` bytes of a gathered copy; 0: none.
/// Comes to what --fcdp-bucket makes with that limit. Fails, and leaves the
/// functions as they are, if a bucket would have too many elements.
llvm::Error joinBuckets(mlir::ModuleOp module, int64_t limit);

} // namespace fcdp
