// SPDX-License-Identifier: Apache-2.0

#include "Decide/StepPlanning.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/Fetches.h"
#include "fcdp/Planning/Residency/PrefetchDistance.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

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

/// Returns the stores that fill each cache of the function.
static llvm::DenseMap<StringAttr, Operation *> findStores(Block &block) {
  llvm::DenseMap<StringAttr, Operation *> stores;
  for (auto store : block.getOps<CacheStoreOp>())
    stores[store.getTargetAttr().getAttr()] = store;
  return stores;
}

/// Returns whether all inputs of `fetch` are available before `place`.
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

/// Returns the fetch's own distance, or else `distance`.
static size_t getDistance(const Fetch &fetch, size_t distance) {
  return getPrefetch(fetch.last).value_or(distance);
}

namespace {
/// The number of fetches that have no distance of their own, and the number of
/// these that are issued ahead of their use.
struct PrefetchCounts {
  size_t fetches = 0, ahead = 0;
};
} // namespace

static PrefetchCounts prefetch(Block &block, size_t byDefault) {
  SmallVector<Fetch> fetches = findFetches(block);
  llvm::DenseMap<StringAttr, Operation *> stores = findStores(block);
  size_t before = 0; // no fetch overtakes another
  PrefetchCounts counts;
  for (size_t i = 1; i < fetches.size(); ++i) {
    size_t distance = getDistance(fetches[i], byDefault);
    size_t ahead = i;
    while (ahead > before && isFetchedBefore(fetches[ahead - 1].range,
                                             fetches[i].range, distance))
      --ahead;
    while (ahead < i && !isReadyAt(fetches[i], fetches[ahead].use, stores))
      ++ahead;
    if (ahead < i)
      for (Operation *op : fetches[i].ops)
        op->moveBefore(fetches[ahead].use);
    if (!getPrefetch(fetches[i].last))
      counts.ahead += ahead < i;
    before = ahead;
  }
  counts.fetches = llvm::count_if(
      fetches, [](const Fetch &fetch) { return !getPrefetch(fetch.last); });
  return counts;
}

/// Emits a remark on the fetches without a distance of their own that are
/// issued ahead. --fcdp-decide-overlap emits the remark on the others.
static void remarkOn(func::FuncOp function, PrefetchCounts counts,
                     size_t distance) {
  if (!function.getContext()->getRemarkEngine() || counts.fetches == 0)
    return;
  remark::passed(function.getLoc(), remark::RemarkOpts::name("prefetch")
                                        .category("fcdp-prefetch")
                                        .function(function.getSymName()))
      << llvm::formatv("@{0}: {1} of {2} copies are fetched ahead of their "
                       "use, at the prefetch distance {3} that the strategy "
                       "or --prefetch gives",
                       function.getSymName(), counts.ahead, counts.fetches,
                       distance)
             .str();
}

void PrefetchPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (isPrefetched(module))
    return; // else what is ahead would go further ahead
  int64_t distance = getPrefetch(module).value_or(kDefaultPrefetch);
  for (auto function : module.getOps<func::FuncOp>())
    remarkOn(function, prefetch(function.front(), distance), distance);
  setPrefetch(module, distance);
  setPrefetched(module);
}
