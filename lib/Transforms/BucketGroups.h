// SPDX-License-Identifier: Apache-2.0
//
// Which parameters share a bucket.
#pragma once

#include "fcdp/Scheduling/BucketMerging.h"
#include "fcdp/Transforms/Passes.h"

namespace fcdp {

/// Parameters that are to be one bucket, in their order, and what they have in
/// common.
struct BucketGroup {
  mlir::StringAttr unit;
  /// `gradient` is null where there is none.
  mlir::Type storage, wire, gradient;
  bool trainable, gathered;
  llvm::SmallVector<ParameterOp> members;

  /// The bucket's name.
  std::string getName() const;
};

/// What each unit gathers together, in the order of the first members. Requires
/// gathers of single parameters.
llvm::SmallVector<BucketGroup> collectBucketGroups(mlir::ModuleOp module);

/// Merges neighbours that differ in nothing but their unit where `limits`,
/// whose bytes are left open, lets them. Fails on bad limits.
mlir::LogicalResult mergeBucketGroups(mlir::ModuleOp module,
                                      llvm::SmallVector<BucketGroup> &groups,
                                      const MergingProblem &limits);

} // namespace fcdp
