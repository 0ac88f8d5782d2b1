// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A reduction, and where its sum is noted.
struct GradientSum {
  /// Packs the gradients; null if they were packed before and read from a
  /// state.
  PackOp pack;
  /// The collectives, each over one axis or both, in program order.
  llvm::SmallVector<mlir::Operation *> steps;
  /// Adds to a sum from host memory; null otherwise.
  AddOp add;
  /// An accumulate; the store of a sum in host memory; or, of one that is not
  /// stored, `add`.
  mlir::Operation *sum = nullptr;
  /// Whether an operation of the block reads it, so that it has to be there.
  bool isRead = false;
};

/// The reductions of a block in phase sharded, and where their sums may be
/// noted.
class GradientSums {
public:
  explicit GradientSums(mlir::Block &block);

  /// In program order.
  llvm::ArrayRef<GradientSum> get() const { return sums; }
  /// What packs the first gradients of each unit, in program order: a unit may
  /// have several buckets.
  llvm::ArrayRef<mlir::Operation *> getFirstPacks() const { return firstPacks; }
  /// Which of them is the last in front of the reduction; nothing if none is.
  std::optional<size_t> findUnit(const GradientSum &sum) const;
  /// Where the sum is noted if reductions of `inFlight` units may run at once:
  /// in front of the first pack of the unit that is so many after its own, or
  /// of the block's terminator; null if nothing was packed for it.
  mlir::Operation *findPlace(const GradientSum &sum, size_t inFlight) const;
  /// In the order that there was.
  bool isBefore(mlir::Operation *a, mlir::Operation *b) const {
    return positions.lookup(a) < positions.lookup(b);
  }

private:
  mlir::Block &block;
  /// Kept, for asking a block for its order after each move takes time in its
  /// length.
  llvm::DenseMap<mlir::Operation *, size_t> positions;
  llvm::SmallVector<mlir::Operation *> firstPacks;
  llvm::SmallVector<GradientSum> sums;
};

} // namespace fcdp
