// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <array>

namespace fcdp {
#define GEN_PASS_DEF_CACHEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
constexpr size_t kNumRoles = getMaxEnumValForRole() + 1;
size_t indexOf(Role role) { return static_cast<size_t>(role); }

/// The gathers of a bucket that yield node slices, or the whole: by role, in
/// program order.
using Gathers = std::array<SmallVector<AllGatherOp>, kNumRoles>;

class CachePass : public fcdp::impl::CachePassBase<CachePass> {
public:
  void runOnOperation() override;

private:
  void collect();
  Gathers &gathersOf(BucketOp bucket, Axis axis) {
    return gathers[{bucket.getSymNameAttr(), static_cast<unsigned>(axis)}];
  }
  /// Whether a copy may outlive a function.
  bool isCarried(BucketOp bucket) {
    return !bucket.getTrainable() || hasSeveral;
  }
  Residency getResidency(BucketOp bucket);
  void keep(BucketOp bucket);
  void carryOnDevice(BucketOp bucket, Axis axis);
  void carryInHost(BucketOp bucket);
  StateOp makeState(BucketOp bucket, StateRole role, RankedTensorType type);

  MeshOp mesh;
  SymbolTable *table = nullptr;
  func::FuncOp init;
  /// Whether there are several micro-batches.
  bool hasSeveral = false;
  llvm::DenseMap<std::pair<StringAttr, unsigned>, Gathers> gathers;
};
} // namespace

void CachePass::collect() {
  gathers.clear();
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    Role role = getRole(function);
    for (auto gather : function.getOps<AllGatherOp>()) {
      if (gather.isOfGradient())
        continue;
      Axis axis =
          isOver(gather.getAxes(), Axis::local) ? Axis::local : Axis::node;
      gathers[{gather.getSourceAttr().getAttr(), static_cast<unsigned>(axis)}]
             [indexOf(role)]
                 .push_back(gather);
    }
  }
}

/// Erases `op` and whatever fed only it.
static void eraseWithInputs(Operation *op) {
  SmallVector<Operation *> inputs;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      inputs.push_back(producer);
  op->erase();
  for (Operation *input : inputs)
    if (input->use_empty())
      eraseWithInputs(input);
}

static void replaceGather(AllGatherOp gather, Value value) {
  gather.replaceAllUsesWith(value);
  eraseWithInputs(gather);
}

static void replaceByLoad(AllGatherOp gather, StateOp cache) {
  OpBuilder builder(gather);
  replaceGather(gather, CacheLoadOp::create(
                            builder, gather.getLoc(),
                            gather.getResult().getType(), cache.getSymName(),
                            FlatSymbolRefAttr(), StreamAttr(), BufferAttr()));
}

static void replaceByRead(AllGatherOp gather, StateOp resident) {
  OpBuilder builder(gather);
  replaceGather(gather, ReadStateOp::create(builder, gather.getLoc(),
                                            resident.getTensorType(),
                                            resident.getSymName()));
}

static void storeBehind(AllGatherOp gather, StateOp cache) {
  OpBuilder builder(gather);
  builder.setInsertionPointAfter(gather);
  CacheStoreOp::create(builder, gather.getLoc(), gather.getResult(),
                       cache.getSymName(), StreamAttr());
}

/// Copies `gather` and what feeds it to the end of `init`.
static AllGatherOp cloneInto(func::FuncOp init, AllGatherOp gather) {
  OpBuilder builder(init.front().getTerminator());
  IRMapping mapping;
  SmallVector<Operation *> chain{gather};
  while (chain.back()->getNumOperands() == 1)
    chain.push_back(chain.back()->getOperand(0).getDefiningOp());
  Operation *last = nullptr;
  for (Operation *op : llvm::reverse(chain))
    last = builder.clone(*op, mapping);
  return cast<AllGatherOp>(last);
}

StateOp CachePass::makeState(BucketOp bucket, StateRole role,
                             RankedTensorType type) {
  StateOp state = createState(bucket, role, type);
  table->insert(state, std::next(Block::iterator(bucket)));
  return state;
}

/// Where the copy lives between uses in a micro-batch: a copy that stays on the
/// device for longer serves them, too.
Residency CachePass::getResidency(BucketOp bucket) {
  Residency residency = *bucket.getResidency();
  return getResidencyWithin(residency, bucket.getCarry().value_or(residency),
                            isCarried(bucket));
}

/// Later gathers of a function give the result of its first.
void CachePass::keep(BucketOp bucket) {
  // The whole is the result of the last axis that has several ranks.
  Axis axis = getResidency(bucket) == Residency::full && mesh.getLocal() > 1
                  ? Axis::local
                  : Axis::node;
  for (auto &ofFunction : gathersOf(bucket, axis))
    for (AllGatherOp later :
         ArrayRef(ofFunction).drop_front(!ofFunction.empty()))
      replaceGather(later, ofFunction.front().getResult());
}

/// The first gather of a step, or of the job, fills a state on the device that
/// serves all others.
void CachePass::carryOnDevice(BucketOp bucket, Axis axis) {
  Gathers &ofBucket = gathersOf(bucket, axis);
  StateOp resident;
  for (auto [index, ofFunction] : llvm::enumerate(ofBucket)) {
    Role role = static_cast<Role>(index);
    if (!isMicrobatch(role))
      continue;
    for (AllGatherOp gather : ofFunction) {
      bool fills = !resident;
      if (fills) {
        resident = makeState(bucket, StateRole::resident,
                             gather.getResult().getType());
        AllGatherOp filler =
            bucket.getTrainable() ? gather : cloneInto(init, gather);
        filler.setInto(resident.getSymName());
      }
      if (!fills || !bucket.getTrainable())
        replaceByRead(gather, resident);
    }
  }
}

/// Slices are stored behind the gather that yields them, and loaded where they
/// are needed again.
void CachePass::carryInHost(BucketOp bucket) {
  Gathers &ofBucket = gathersOf(bucket, Axis::node);
  bool isWithin = *bucket.getResidency() == Residency::host;
  bool isAcross =
      isCarried(bucket) &&
      bucket.getCarry().value_or(*bucket.getResidency()) == Residency::host;
  StateOp cache;
  auto getCache = [&](AllGatherOp gather) {
    if (!cache)
      cache = makeState(bucket, StateRole::cache, gather.getResult().getType());
    return cache;
  };
  for (auto [index, ofFunction] : llvm::enumerate(ofBucket)) {
    Role role = static_cast<Role>(index);
    if (!isMicrobatch(role) || ofFunction.empty())
      continue;
    if (isAcross && (!bucket.getTrainable() || !isFirstOfStep(role))) {
      if (!bucket.getTrainable() && !cache)
        storeBehind(cloneInto(init, ofFunction.front()),
                    getCache(ofFunction.front()));
      for (AllGatherOp gather : ofFunction)
        replaceByLoad(gather, getCache(gather));
      continue;
    }
    bool isNeeded = (isWithin && ofFunction.size() > 1) || isAcross;
    if (!isNeeded)
      continue;
    storeBehind(ofFunction.front(), getCache(ofFunction.front()));
    for (AllGatherOp gather : llvm::drop_begin(ofFunction))
      if (isWithin)
        replaceByLoad(gather, cache);
  }
}

void CachePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  // Those that are served already are left alone.
  llvm::DenseSet<StringAttr> served;
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == StateRole::cache ||
        state.getRole() == StateRole::resident)
      served.insert(state.getBucketAttr().getAttr());
  SmallVector<BucketOp> buckets;
  for (auto bucket : module.getOps<BucketOp>()) {
    if (!bucket.getResidency()) {
      bucket.emitError("expected a residency; run --fcdp-decide first");
      return signalPassFailure();
    }
    if (!served.contains(bucket.getSymNameAttr()))
      buckets.push_back(bucket);
  }
  SymbolTable symbols(module);
  table = &symbols;
  mesh = getMesh(module);
  init = symbols.lookup<func::FuncOp>(stringifyRole(Role::init));
  hasSeveral = !!symbols.lookup(stringifyRole(Role::first_microbatch));

  collect();
  for (BucketOp bucket : buckets)
    if (Residency residency = getResidency(bucket);
        residency == Residency::full || residency == Residency::node)
      keep(bucket);
  collect();
  for (BucketOp bucket : buckets) {
    Residency carry = bucket.getCarry().value_or(*bucket.getResidency());
    if (carry == Residency::full && isCarried(bucket))
      carryOnDevice(bucket, mesh.getLocal() > 1 ? Axis::local : Axis::node);
    else if (carry == Residency::node && isCarried(bucket))
      carryOnDevice(bucket, Axis::node);
    else
      carryInHost(bucket);
  }
}
