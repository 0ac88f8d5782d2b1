// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// The operations that bring one copy of a bucket to its use.
struct Fetch {
  /// The operations in program order.
  llvm::SmallVector<mlir::Operation *> ops;
  /// The operation of `ops` that gathers or loads the copy.
  mlir::Operation *last;
  /// The next operation that is part of no fetch. The copy is used from there
  /// on.
  mlir::Operation *use;
  /// Index of the copy's live range, counted over all units: a unit may have
  /// several buckets.
  size_t range = 0;
};

/// Returns the fetches of a block in phase sharded, in program order: each
/// gather or load of a copy, with the operations that it needs and the stores
/// of their results. Operations that fetches share are part of the first one.
/// Adjacent fetches for one unit are for one range.
llvm::SmallVector<Fetch> findFetches(mlir::Block &block);

} // namespace fcdp
