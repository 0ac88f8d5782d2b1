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

/// The types that are asked for; null if nothing is.
struct Precision {
  /// That of masters of trained parameters in a narrower type.
  mlir::Type master;
  /// That in which gradients are reduced.
  mlir::Type reduce;
};

/// Returns the parameters that each unit gathers together, in the order of the
/// first members. If buckets exist, returns those without further decisions.
/// Requires gathers of single parameters or of whole buckets. `precision` is
/// that of new buckets.
llvm::SmallVector<BucketGroup>
collectBucketGroups(mlir::ModuleOp module, const Precision &precision = {});

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
