// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A reduction, and the operation that accumulates its result.
struct GradientSum {
  /// Packs the gradients; null if they were packed before and read from a
  /// state.
  PackOp pack;
  /// The collectives, each over one axis or both, in program order.
  llvm::SmallVector<mlir::Operation *> steps;
  /// Adds the result to a gradient accumulator in host memory; null otherwise.
  AddOp add;
  /// The operation that completes the accumulation: an accumulate, the store of
  /// an accumulator in host memory, or `add` if that result is not stored.
  mlir::Operation *sum = nullptr;
  /// Whether an operation of the block reads the accumulator, so that the
  /// accumulation has to be complete.
  bool isRead = false;
};

/// The reductions of a block in phase sharded, and the places at which their
/// results may be accumulated.
class GradientSums {
public:
  explicit GradientSums(mlir::Block &block);

  /// Returns the reductions in program order.
  llvm::ArrayRef<GradientSum> get() const { return sums; }
  /// Returns the operation that packs the first gradients of each unit, in
  /// program order: a unit may have several buckets.
  llvm::ArrayRef<mlir::Operation *> getFirstPacks() const { return firstPacks; }
  /// Returns the operation before which the result is accumulated if reductions
  /// of `inFlight` units may run at once, by findSumPlace: the first pack of a
  /// later unit, or the block's terminator. Null if nothing was packed for the
  /// reduction.
  mlir::Operation *findPlace(const GradientSum &sum, size_t inFlight) const;
  /// Returns whether `a` was before `b` when the object was made.
  bool isBefore(mlir::Operation *a, mlir::Operation *b) const {
    return positions.lookup(a) < positions.lookup(b);
  }

private:
  /// Returns the index of the last first pack before the reduction, if any.
  std::optional<size_t> findUnit(const GradientSum &sum) const;

  mlir::Block &block;
  /// The positions of the block's operations. They are stored, because a block
  /// takes linear time to number its operations again after each move.
  llvm::DenseMap<mlir::Operation *, size_t> positions;
  llvm::SmallVector<mlir::Operation *> firstPacks;
  llvm::SmallVector<GradientSum> sums;
};

} // namespace fcdp
