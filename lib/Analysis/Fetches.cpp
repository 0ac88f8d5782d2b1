// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Fetches.h"

#include "fcdp/Analysis/LiveRanges.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The unit of each bucket, and of its caches.
class UnitsOfBuckets {
public:
  explicit UnitsOfBuckets(ModuleOp module) {
    for (auto bucket : module.getOps<BucketOp>())
      units[bucket.getSymNameAttr()] = bucket.getUnitAttr();
    for (auto state : module.getOps<StateOp>())
      units[state.getSymNameAttr()] =
          units.lookup(state.getBucketAttr().getAttr());
  }
  StringAttr of(const Fetch &fetch) const {
    return units.lookup(getStorage(fetch.last).getAttr());
  }

private:
  llvm::DenseMap<StringAttr, StringAttr> units;
};
} // namespace

static bool feedsGather(Operation *op) {
  return llvm::any_of(op->getUsers(), asGather);
}

/// Collects `op`, the operations that feed it, and the stores of their results,
/// except for operations in `taken`: fetches may share a slice.
static void collectFetch(Operation *op,
                         llvm::SmallPtrSetImpl<Operation *> &taken,
                         SmallVectorImpl<Operation *> &ops) {
  if (!isa_and_present<FetchOpInterface>(op) || !taken.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    collectFetch(operand.getDefiningOp(), taken, ops);
  ops.push_back(op);
  for (Operation *user : op->getUsers())
    if (isa<CacheStoreOp>(user) && taken.insert(user).second)
      ops.push_back(user);
}

/// Sets the range of each fetch. A unit may have two ranges in a row, in each
/// of which a bucket is fetched once.
static void countRanges(MutableArrayRef<Fetch> fetches,
                        const UnitsOfBuckets &units) {
  LiveRangeCounter counter;
  llvm::DenseMap<StringRef, size_t> ranges;
  for (Fetch &fetch : fetches) {
    auto [last, isFirst] =
        ranges.try_emplace(getStorage(fetch.last).getValue());
    fetch.range = counter.add(units.of(fetch));
    if (!isFirst && last->second == fetch.range) {
      counter.end();
      fetch.range = counter.add(units.of(fetch));
    }
    last->second = fetch.range;
  }
}

SmallVector<Fetch> fcdp::findFetches(Block &block) {
  llvm::SmallPtrSet<Operation *, 32> taken;
  SmallVector<Fetch> fetches;
  for (Operation &op : block) {
    auto step = dyn_cast<FetchOpInterface>(op);
    if (!step || !step.bringsCopy() || feedsGather(&op))
      continue;
    Fetch &fetch = fetches.emplace_back();
    fetch.last = &op;
    collectFetch(&op, taken, fetch.ops);
    fetch.use = op.getNextNode();
  }
  // The following operation may be part of the next fetch.
  for (Fetch &fetch : fetches)
    while (taken.contains(fetch.use))
      fetch.use = fetch.use->getNextNode();
  countRanges(fetches,
              UnitsOfBuckets(block.getParentOp()->getParentOfType<ModuleOp>()));
  return fetches;
}
