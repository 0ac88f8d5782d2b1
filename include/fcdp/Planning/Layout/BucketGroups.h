// SPDX-License-Identifier: Apache-2.0
//
// Groups the parameters of each bucket.
#pragma once

#include "fcdp/Planning/Buckets/BucketMerging.h"
#include "fcdp/Planning/Layout/BucketOptions.h"

namespace fcdp {

/// Parameters that will be one bucket, in their order.
struct BucketGroup : BucketKind {
  mlir::StringAttr unit;
  llvm::SmallVector<ParameterOp> members;
  /// The buckets that it replaces; none if there are no buckets yet.
  llvm::SmallVector<BucketOp, 0> buckets;

  /// Returns the bucket's name.
  std::string getName() const;
};

/// Returns the parameters that each unit gathers together, in the order of
/// their first members. If buckets exist, it returns the ones without further
/// decisions. Requires gathers of single parameters or of whole buckets.
llvm::SmallVector<BucketGroup>
collectBucketGroups(mlir::ModuleOp module, const BucketOptions &options = {});

/// Returns, for each kind, the gathered bytes of neighbours that differ only in
/// their unit.
llvm::SmallVector<llvm::SmallVector<int64_t>>
collectNeighbourBytes(llvm::MutableArrayRef<BucketGroup> groups);

/// Merges neighbours that differ only in their unit, up to `limit` bytes; 0
/// merges none.
mlir::LogicalResult mergeBucketGroups(mlir::ModuleOp module,
                                      llvm::SmallVector<BucketGroup> &groups,
                                      int64_t limit);

} // namespace fcdp
