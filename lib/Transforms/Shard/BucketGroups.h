// SPDX-License-Identifier: Apache-2.0
//
// The parameters of each bucket.
#pragma once

#include "Options/BucketOptions.h"
#include "fcdp/Planning/Buckets/BucketMerging.h"
#include "fcdp/Transforms/Passes.h"

namespace fcdp {

/// Parameters that are to be one bucket, in their order.
struct BucketGroup : BucketKind {
  mlir::StringAttr unit;
  llvm::SmallVector<ParameterOp> members;
  /// The buckets whose place it takes; none where there are no buckets yet.
  llvm::SmallVector<BucketOp, 0> buckets;

  /// The bucket's name.
  std::string getName() const;
};

/// Returns the parameters that each unit gathers together, in the order of the
/// first members. If buckets exist, returns those without further decisions.
/// Requires gathers of single parameters or of whole buckets.
llvm::SmallVector<BucketGroup>
collectBucketGroups(mlir::ModuleOp module, const BucketOptions &options = {});

/// Returns, for each kind, the bytes that neighbours gather which differ only
/// in their unit.
llvm::SmallVector<llvm::SmallVector<int64_t>>
collectNeighbourBytes(llvm::MutableArrayRef<BucketGroup> groups);

/// Merges neighbours that differ in nothing but their unit up to `limit` bytes;
/// 0 merges none.
mlir::LogicalResult mergeBucketGroups(mlir::ModuleOp module,
                                      llvm::SmallVector<BucketGroup> &groups,
                                      int64_t limit);

} // namespace fcdp
