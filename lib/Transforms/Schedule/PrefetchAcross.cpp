// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/Accesses.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Fetches.h"
#include "fcdp/Analysis/FunctionBoundaries.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace fcdp {
#define GEN_PASS_DEF_PREFETCHACROSSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// A micro-batch's function and its fetches, in program order.
struct Batch {
  func::FuncOp function;
  SmallVector<Fetch> fetches;

  size_t countRanges() const {
    return fetches.empty() ? 0 : fetches.back().range + 1;
  }
};

/// A fetch of @next_microbatch, and the same fetch of each micro-batch that may
/// be the last.
struct Crosser {
  Fetch *next;
  SmallVector<Fetch *, 2> last;
  BucketOp bucket;
};

/// The micro-batches of one step of the family.
struct Step {
  Batch first, next;
  std::vector<Batch> last;
  SmallVector<Crosser> crossers;
};

class PrefetchAcrossPass
    : public fcdp::impl::PrefetchAcrossPassBase<PrefetchAcrossPass> {
public:
  void runOnOperation() override;
};
} // namespace

/// Returns whether the operation only names a state, and does nothing.
static bool isRead(Operation *op) {
  return isa_and_present<ReadShardOp, ReadStateOp>(op);
}

/// Adds the reads of states that fetches share.
static void addReads(Fetch &fetch) {
  for (Operation *op : llvm::to_vector(fetch.ops))
    for (Value operand : op->getOperands())
      if (Operation *input = operand.getDefiningOp();
          isRead(input) && !llvm::is_contained(fetch.ops, input))
        fetch.ops.insert(fetch.ops.begin(), input);
}

static Batch makeBatch(func::FuncOp function) {
  Batch batch{function, findFetches(function.front())};
  llvm::for_each(batch.fetches, addReads);
  return batch;
}

/// Returns whether the values that `fetch` computes have no other use, so that
/// all of it may move to another function.
static bool isAlone(const Fetch &fetch) {
  auto isInside = [&](Operation *op) {
    return op && llvm::is_contained(fetch.ops, op);
  };
  if (llvm::any_of(fetch.ops, llvm::IsaPred<CacheStoreOp>) ||
      getInto(fetch.last))
    return false;
  return llvm::all_of(fetch.ops, [&](Operation *op) {
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) {
                          return isInside(operand.getDefiningOp());
                        }) &&
           (op == fetch.last || isRead(op) ||
            llvm::all_of(op->getUsers(), isInside));
  });
}

/// Returns whether both fetches bring the same copy in the same way.
static bool isSame(const Fetch &a, const Fetch &b) {
  return llvm::equal(a.ops, b.ops, [](Operation *x, Operation *y) {
    return x->getName() == y->getName() &&
           x->getAttrDictionary() == y->getAttrDictionary() &&
           x->getResultTypes() == y->getResultTypes();
  });
}

static BucketOp findBucket(const Fetch &fetch, SymbolTable &symbols) {
  StringRef name = getStorage(fetch.last).getValue();
  if (auto state = symbols.lookup<StateOp>(name))
    name = state.getBucket();
  return symbols.lookup<BucketOp>(name);
}

/// Returns fetch `index` of each of `batches`, if it is the same as `fetch` and
/// may move to another function. A fetch whose values have other users would
/// stay beside its prefetched copy. This would be correct, but the copy would
/// be made twice.
static SmallVector<Fetch *, 2> findTwins(const Fetch &fetch, size_t index,
                                         MutableArrayRef<Batch> batches) {
  SmallVector<Fetch *, 2> twins;
  for (Batch &batch : batches)
    if (index < batch.fetches.size() && isAlone(batch.fetches[index]) &&
        isSame(fetch, batch.fetches[index]))
      twins.push_back(&batch.fetches[index]);
  return twins;
}

/// Returns the first fetches of all micro-batches that may be issued in the
/// function before. No fetch overtakes another, and a bucket has one state.
static SmallVector<Crosser> findCrossers(Step &step, size_t distance,
                                         SymbolTable &symbols) {
  llvm::SmallPtrSet<Operation *, 4> seen;
  SmallVector<Crosser> crossers;
  for (auto [index, fetch] : llvm::enumerate(step.next.fetches)) {
    BucketOp bucket = findBucket(fetch, symbols);
    SmallVector<Fetch *, 2> twins = findTwins(fetch, index, step.last);
    if (fetch.range >= distance || !isAlone(fetch) ||
        twins.size() != step.last.size() || !seen.insert(bucket).second)
      break;
    crossers.push_back({&fetch, std::move(twins), bucket});
  }
  return crossers;
}

/// Returns the first use of the copy that `fetch` brings.
static Operation *findUse(const Fetch &fetch) {
  Operation *last = fetch.last, *first = nullptr;
  for (Operation *user : last->getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  return first ? first : last->getNextNode();
}

/// Returns the last operation of `function` that must precede a copy of
/// `fetch`: an operation that fills a state that the fetch reads, that uses the
/// earlier copy, or that belongs to the fetch before it.
static Operation *findLastHazard(func::FuncOp function, const Fetch &fetch,
                                 const Accesses &accesses) {
  Operation *last = nullptr;
  auto standBehind = [&](Operation *op) {
    if (!last || last->isBeforeInBlock(op))
      last = op;
  };
  llvm::SmallDenseSet<StringAttr, 2> read;
  for (Operation *op : fetch.ops)
    for (const Access &access : accesses.get(op))
      if (!access.isWrite)
        read.insert(access.state);
  for (Operation &op : function.front())
    if ((getInto(&op) && mayBeInFlight(&op)) ||
        llvm::any_of(accesses.get(&op), [&](const Access &access) {
          return access.isWrite && read.contains(access.state);
        }))
      standBehind(&op);
  if (fetch.last->getBlock() == &function.front())
    for (Operation *user : collectMemoryUsers(fetch.last->getResult(0)))
      standBehind(user);
  return last;
}

/// Returns the operation of `batch` before which the fetch for live range
/// `range` is issued. The numbers of ranges continue after the function's end.
static Operation *findPlace(Batch &batch, const Fetch &fetch, size_t range,
                            size_t distance, const Accesses &accesses) {
  Operation *hazard = findLastHazard(batch.function, fetch, accesses);
  for (const Fetch &ahead : batch.fetches) {
    if (ahead.range + distance < range)
      continue;
    Operation *use = findUse(ahead);
    if (!hazard || hazard->isBeforeInBlock(use))
      return use;
  }
  return batch.function.front().getTerminator();
}

/// Copies `fetch` before `place`, into the memory of `state`.
static void copyFetch(const Fetch &fetch, Operation *place, StateOp state) {
  OpBuilder builder(place);
  IRMapping mapping;
  Operation *copy = nullptr;
  for (Operation *op : fetch.ops)
    copy = builder.clone(*op, mapping);
  cast<BufferedOpInterface>(copy).setIntoAttr(
      FlatSymbolRefAttr::get(state.getSymNameAttr()));
}

/// Replaces `fetch` by a read of the prefetched copy in `state`.
static void replaceByRead(Fetch &fetch, StateOp state) {
  Operation *last = fetch.last;
  OpBuilder builder(findUse(fetch));
  Value copy = ReadStateOp::create(builder, last->getLoc(),
                                   state.getTensorType(), state.getSymName());
  last->getResult(0).replaceAllUsesWith(copy);
  for (Operation *op : llvm::reverse(fetch.ops))
    if (op->use_empty())
      op->erase();
}

static StateOp addState(BucketOp bucket, SymbolTable &symbols, MeshOp mesh) {
  StateOp state =
      createState(bucket, StateRole::prefetched,
                  getStateType(bucket, StateRole::prefetched, mesh));
  symbols.insert(state, std::next(Block::iterator(bucket)));
  return state;
}

/// Keeps only the crossers that all steps have in common: a copy has one state,
/// which each step fills.
static void keepCommon(MutableArrayRef<Step> steps) {
  SmallVector<Crosser> &first = steps.front().crossers;
  size_t count = first.size();
  for (Step &step : steps) {
    auto isSameBucket = [](const Crosser &a, const Crosser &b) {
      return a.bucket == b.bucket;
    };
    const auto *different =
        std::mismatch(first.begin(), first.end(), step.crossers.begin(),
                      step.crossers.end(), isSameBucket)
            .first;
    count = std::min<size_t>(count, different - first.begin());
  }
  for (Step &step : steps)
    step.crossers.truncate(count);
}

/// Moves the first fetches of a micro-batch into the micro-batches before it,
/// as far ahead as the distance says. Weights do not change until the update,
/// so the copies are not stale.
static void prefetchAcross(Step &step, ArrayRef<StateOp> states,
                           size_t distance, const Accesses &accesses) {
  for (auto [crosser, state] : llvm::zip_equal(step.crossers, states))
    for (Batch *batch : {&step.first, &step.next})
      copyFetch(*crosser.next,
                findPlace(*batch, *crosser.next,
                          batch->countRanges() + crosser.next->range, distance,
                          accesses),
                state);
  for (auto [crosser, state] : llvm::zip_equal(step.crossers, states)) {
    replaceByRead(*crosser.next, state);
    for (Fetch *last : crosser.last)
      replaceByRead(*last, state);
  }
}

/// Returns whether the module has buckets, and no fetch crosses a boundary yet.
static bool isReady(ModuleOp module) {
  return !module.getOps<BucketOp>().empty() &&
         llvm::none_of(module.getOps<StateOp>(), [](StateOp state) {
           return state.getRole() == StateRole::prefetched;
         });
}

void PrefetchAcrossPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  std::optional<int64_t> distance = getPrefetch(module);
  if (!distance || !isReady(module))
    return;
  std::vector<Step> steps;
  for (const StepMicrobatches &of : getSteps(module)) {
    Step &step = steps.emplace_back();
    step.first = makeBatch(of.first);
    step.next = makeBatch(of.next);
    for (func::FuncOp last : of.last)
      step.last.push_back(makeBatch(last));
  }
  if (steps.empty())
    return;
  SymbolTable symbols(module);
  for (Step &step : steps)
    step.crossers = findCrossers(step, *distance, symbols);
  keepCommon(steps);
  SmallVector<StateOp> states;
  for (const Crosser &crosser : steps.front().crossers)
    states.push_back(addState(crosser.bucket, symbols, getMesh(module)));
  Accesses accesses(module);
  for (Step &step : steps)
    prefetchAcross(step, states, *distance, accesses);
}
