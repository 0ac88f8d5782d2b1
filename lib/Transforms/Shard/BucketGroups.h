// SPDX-License-Identifier: Apache-2.0
//
// The parameters of each bucket.
#pragma once

#include "fcdp/Analysis/BucketKind.h"
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

/// What is asked for of new buckets; null if nothing is.
struct BucketOptions {
  /// The type of masters of trained parameters in a narrower type.
  mlir::Type master;
  /// The type in which gradients are reduced.
  mlir::Type reduce;
  /// The layout, unless the optimizer needs another one.
  LayoutAttr layout;
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
