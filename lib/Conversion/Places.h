// SPDX-License-Identifier: Apache-2.0
//
// The places of the values and states of a planned module.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// `bytes` of `buffer`, from `offset` on.
BufferAttr slice(BufferAttr buffer, int64_t offset, int64_t bytes);

class Places {
public:
  static mlir::FailureOr<Places> compute(mlir::ModuleOp module);

  /// The memory of `value`, exactly as large as its type; null for a value
  /// that ATen makes.
  BufferAttr lookup(mlir::Value value) const { return ofValue.lookup(value); }
  /// Null if `bucket` has no such state.
  StateOp lookup(mlir::StringAttr bucket, StateRole role) const {
    return states.lookup({bucket, static_cast<unsigned>(role)});
  }
  /// The place of `parameter` in the result of `pack`, whose type may differ
  /// from the bucket's own.
  BufferAttr getMember(PackOp pack, mlir::FlatSymbolRefAttr parameter) const;
  BucketOp getBucket(mlir::StringAttr name) const {
    return buckets.lookup(name);
  }
  /// The state of that name.
  StateOp lookup(mlir::StringAttr name) const { return byName.lookup(name); }
  /// The state that `op` adds to; null if there is none.
  StateOp getAccumulator(AccumulateOp op) const {
    mlir::StringAttr target = op.getTargetAttr().getAttr();
    StateOp state = lookup(target);
    return state ? state : lookup(target, StateRole::grad);
  }

private:
  void addBucket(BucketOp bucket);
  mlir::LogicalResult addState(StateOp state);
  mlir::LogicalResult addResult(mlir::Operation *op);
  mlir::FailureOr<BufferAttr> find(ReadShardOp read) const;
  mlir::FailureOr<BufferAttr> find(ReadStateOp read) const;
  mlir::FailureOr<BufferAttr> find(ViewMemberOp view) const;

  llvm::DenseMap<mlir::Value, BufferAttr> ofValue;
  llvm::DenseMap<std::pair<mlir::StringAttr, unsigned>, StateOp> states;
  llvm::DenseMap<mlir::StringAttr, StateOp> byName;
  llvm::DenseMap<mlir::StringAttr, BucketOp> buckets;
  llvm::DenseMap<mlir::StringAttr, mlir::RankedTensorType> parameters;
  /// First element of a member, by bucket and parameter.
  llvm::DenseMap<std::pair<mlir::StringAttr, mlir::StringAttr>, int64_t>
      members;
};

} // namespace fcdp
