// SPDX-License-Identifier: Apache-2.0
//
// What brings gathered copies to where they are used.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// The unit of each bucket, and of its caches.
class UnitsOfBuckets {
public:
  explicit UnitsOfBuckets(mlir::ModuleOp module) {
    for (auto bucket : module.getOps<BucketOp>())
      units[bucket.getSymNameAttr()] = bucket.getUnitAttr();
    for (auto state : module.getOps<StateOp>())
      units[state.getSymNameAttr()] =
          units.lookup(state.getBucketAttr().getAttr());
  }
  /// Of a fetch that consists of `ops`.
  mlir::StringAttr of(llvm::ArrayRef<mlir::Operation *> ops) const {
    for (mlir::Operation *op : llvm::reverse(ops))
      if (mlir::isa<AllGatherOp, CacheLoadOp>(
              op)) // a store may stand behind it
        return units.lookup(
            op->getAttrOfType<mlir::FlatSymbolRefAttr>("source").getAttr());
    return {};
  }

private:
  llvm::DenseMap<mlir::StringAttr, mlir::StringAttr> units;
};

/// What brings one copy of a bucket to where it is used.
struct Fetch {
  /// In program order; the last gathers or loads what is used.
  llvm::SmallVector<mlir::Operation *> ops;
  /// What followed the fetch, and is not moved: from there on it is used.
  mlir::Operation *use;
  /// Which live range of a unit it is for, counted over all units: a unit may
  /// have several buckets.
  size_t range = 0;
};

/// The fetches of a function, in program order.
llvm::SmallVector<Fetch> findFetches(mlir::Block &block);
/// Fetches that follow each other and are for one unit are for one range.
void countRanges(llvm::MutableArrayRef<Fetch> fetches,
                 const UnitsOfBuckets &units);

} // namespace fcdp
