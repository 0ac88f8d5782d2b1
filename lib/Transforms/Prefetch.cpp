// SPDX-License-Identifier: Apache-2.0

#include "Fetches.h"
#include "VerifyPhase.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace fcdp {
#define GEN_PASS_DEF_PREFETCHPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class PrefetchPass : public fcdp::impl::PrefetchPassBase<PrefetchPass> {
public:
  using PrefetchPassBase::PrefetchPassBase;
  void runOnOperation() override;
};
} // namespace

static bool feedsGather(Operation *op) {
  return llvm::any_of(op->getUsers(), llvm::IsaPred<AllGatherOp>);
}

/// Whether `op` gathers or loads a parameter's copy.
static bool isOfCopy(Operation *op) {
  if (auto gather = dyn_cast<AllGatherOp>(op))
    return !gather.isOfGradient();
  return isa<CacheLoadOp>(op);
}

/// Collects `op`, what feeds it, and the stores of what feeds it, but for what
/// is in `taken`: fetches may share a slice.
static void collectFetch(Operation *op,
                         llvm::SmallPtrSetImpl<Operation *> &taken,
                         SmallVectorImpl<Operation *> &ops) {
  if (!isa_and_present<AllGatherOp, CacheLoadOp, CastShardOp, ReadShardOp,
                       ReadStateOp>(op) ||
      !taken.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    collectFetch(operand.getDefiningOp(), taken, ops);
  ops.push_back(op);
  for (Operation *user : op->getUsers())
    if (isa<CacheStoreOp>(user) && taken.insert(user).second)
      ops.push_back(user);
}

SmallVector<Fetch> fcdp::findFetches(Block &block) {
  llvm::SmallPtrSet<Operation *, 32> taken;
  SmallVector<Fetch> fetches;
  for (Operation &op : block) {
    if (!isOfCopy(&op) || feedsGather(&op))
      continue;
    Fetch &fetch = fetches.emplace_back();
    collectFetch(&op, taken, fetch.ops);
    fetch.use = op.getNextNode();
  }
  // What follows may be the next fetch.
  for (Fetch &fetch : fetches)
    while (taken.contains(fetch.use))
      fetch.use = fetch.use->getNextNode();
  return fetches;
}

/// The stores that fill each cache of the function.
static llvm::DenseMap<StringAttr, Operation *> findStores(Block &block) {
  llvm::DenseMap<StringAttr, Operation *> stores;
  for (auto store : block.getOps<CacheStoreOp>())
    stores[store.getTargetAttr().getAttr()] = store;
  return stores;
}

/// Whether all that `fetch` needs is there in front of `place`.
static bool isReadyAt(const Fetch &fetch, Operation *place,
                      const llvm::DenseMap<StringAttr, Operation *> &stores) {
  auto isThere = [&](Operation *needed) {
    return !needed || llvm::is_contained(fetch.ops, needed) ||
           needed->isBeforeInBlock(place);
  };
  return llvm::all_of(fetch.ops, [&](Operation *op) {
    auto load = dyn_cast<CacheLoadOp>(op);
    if (load && !isThere(stores.lookup(load.getSourceAttr().getAttr())))
      return false;
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return isThere(operand.getDefiningOp());
    });
  });
}

void fcdp::countRanges(MutableArrayRef<Fetch> fetches,
                       const UnitsOfBuckets &units) {
  for (size_t i = 1; i < fetches.size(); ++i)
    fetches[i].range = fetches[i - 1].range + (units.of(fetches[i].ops) !=
                                               units.of(fetches[i - 1].ops));
}

static void prefetch(Block &block, size_t distance,
                     const UnitsOfBuckets &units) {
  SmallVector<Fetch> fetches = findFetches(block);
  countRanges(fetches, units);
  llvm::DenseMap<StringAttr, Operation *> stores = findStores(block);
  size_t before = 0; // no fetch overtakes another
  for (size_t i = 1; distance > 0 && i < fetches.size(); ++i) {
    size_t ahead = i;
    while (ahead > before &&
           fetches[ahead - 1].range + distance >= fetches[i].range)
      --ahead;
    while (ahead < i && !isReadyAt(fetches[i], fetches[ahead].use, stores))
      ++ahead;
    if (ahead < i)
      for (Operation *op : fetches[i].ops)
        op->moveBefore(fetches[ahead].use);
    before = ahead;
  }
}

void PrefetchPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (distance < 0) {
    module.emitError("distance: expected 0 or more, got ")
        << distance.getValue();
    return signalPassFailure();
  }
  if (module->hasAttr(kPrefetchedAttr))
    return; // else what is ahead would go further ahead
  Builder builder(&getContext());
  if (auto decided = module->getAttrOfType<IntegerAttr>(kPrefetchAttr))
    distance = decided.getInt();
  UnitsOfBuckets units(module);
  for (auto function : module.getOps<func::FuncOp>())
    prefetch(function.front(), distance, units);
  module->setAttr(kPrefetchAttr, builder.getI64IntegerAttr(distance));
  module->setAttr(kPrefetchedAttr, builder.getUnitAttr());
}
