// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// What brings one copy of a bucket to where it is used.
struct Fetch {
  /// In program order.
  llvm::SmallVector<mlir::Operation *> ops;
  /// Of them, what gathers or loads the copy.
  mlir::Operation *last;
  /// What follows and is part of no fetch: from there on the copy is used.
  mlir::Operation *use;
  /// Which live range of a unit it is for, counted over all units: a unit may
  /// have several buckets.
  size_t range = 0;
};

/// In program order: of each gather or load of a copy in phase sharded what it
/// needs, and the stores of that. What fetches share is part of the first.
/// Fetches that follow each other and are for one unit are for one range.
llvm::SmallVector<Fetch> findFetches(mlir::Block &block);

} // namespace fcdp
