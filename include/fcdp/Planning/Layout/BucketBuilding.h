// SPDX-License-Identifier: Apache-2.0
//
// Replaces parameters that are gathered and reduced one by one by buckets.
#pragma once

#include "fcdp/Planning/Layout/BucketGroups.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp {

/// Puts parameters into buckets, or buckets into larger ones.
class BucketBuilder {
public:
  explicit BucketBuilder(mlir::ModuleOp module);

  /// Creates the bucket of `group` and its states before `place`. Later the
  /// bucket replaces the group's buckets or, if there are none, its members.
  /// Fails if it has too many elements.
  llvm::Error add(const BucketGroup &group, mlir::Block::iterator place);
  /// Makes all functions gather, reduce and update the added buckets. Requires
  /// gathers and reductions over all ranks, each of a parameter or of a bucket.
  /// A bucket must have a view for each member, and a pack of all gradients.
  void moveFunctions();

private:
  void addStates(BucketOp bucket, mlir::Attribute optimizer,
                 mlir::Block::iterator place);
  llvm::DenseMap<mlir::Operation *, int64_t>
  findRanges(mlir::func::FuncOp function);
  mlir::Value gatherCopy(mlir::OpBuilder &builder, BucketOp bucket,
                         AllGatherOp like, int64_t range);
  void mergeGathers(mlir::func::FuncOp function);
  void mergeReductions(mlir::func::FuncOp function);
  void mergeUpdates(mlir::func::FuncOp function);
  /// Returns the bucket that replaces `source`, or null.
  BucketOp bucketOf(mlir::FlatSymbolRefAttr source) {
    return buckets.lookup(source.getAttr());
  }

  mlir::ModuleOp module;
  mlir::SymbolTable table;
  MeshOp mesh;
  /// Buckets by the symbol that they replace.
  llvm::DenseMap<mlir::StringAttr, BucketOp> buckets;
};

} // namespace fcdp
