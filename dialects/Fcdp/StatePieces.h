// SPDX-License-Identifier: Apache-2.0
//
// The pieces of states in host memory or in files, by which an update streams
// them through device memory.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// Elements [begin, end) of a shard or a state.
struct PieceRange {
  int64_t begin, end;
};

/// Returns the states that an update of `bucket` changes, beside the shard: the
/// optimizer's in its order, then the master.
llvm::SmallVector<StateRole> getUpdatedStates(BucketOp bucket,
                                              OptimizerAttrInterface optimizer);

/// Returns whether the update of `bucket` streams its states.
bool areStreamed(BucketOp bucket);

/// Returns the number of elements of a shard at whose multiples pieces of its
/// states may begin: whole blocks of states and, in a file, of each state.
int64_t getPieceMultiple(BucketOp bucket, OptimizerAttrInterface optimizer);

/// Returns the number of elements of the shard that a rank owns.
int64_t countShardElements(BucketOp bucket);

/// Returns the number of elements of a shard of which `optimizer` can update
/// each multiple alone, or none if it needs the shard as a whole.
std::optional<int64_t> getPieceUnit(OptimizerAttrInterface optimizer);

/// Returns the part of a bucket's state that belongs to a range of its shard,
/// or none if the state cannot be cut there.
std::optional<PieceRange> getStateRange(BucketOp bucket, StateRole role,
                                        PieceRange ofShard);

/// The number of pieces that updates in host memory have there at a time: while
/// one is updated, the next is stored, and the one before is loaded.
inline constexpr size_t kHostWindows = 3;

/// Returns whether the processors of a node can update such a bucket: its
/// optimizer updates each element, or each block, by itself.
bool canUpdateOnHost(OptimizerAttrInterface optimizer);

/// Verifies C2 of an update.
llvm::LogicalResult verifyOptimizer(UpdateOpInterface update,
                                    mlir::SymbolTableCollection &symbols,
                                    mlir::Operation *target);

/// Verifies C3 and C4 of an update. `bucket` is null for a parameter's.
llvm::LogicalResult verifyPiece(ShardUpdateOp update, BucketOp bucket);

} // namespace fcdp
