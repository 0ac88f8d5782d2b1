// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Planning/Residency/CopyPolicy.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <map>

namespace fcdp {
#define GEN_PASS_DEF_CACHEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// The gathers of a bucket whose results are node slices, or the whole bucket,
/// in program order, by function in the order of roles and variants.
using Gathers = std::map<FamilyMember, SmallVector<AllGatherOp>>;

class CachePass : public fcdp::impl::CachePassBase<CachePass> {
public:
  void runOnOperation() override;

private:
  void collect();
  Gathers &gathersOf(BucketOp bucket, Axis axis) {
    return gathers[{bucket.getSymNameAttr(), static_cast<unsigned>(axis)}];
  }
  /// Returns the axis of the gathers whose result stays in `tier`. The whole
  /// bucket is the result of the last axis that has several ranks.
  Axis getAxis(const Tier &tier) {
    return tier.part == CopyPart::whole && mesh.getLocal() > 1 ? Axis::local
                                                               : Axis::node;
  }
  CopyPolicy makePolicy(BucketOp bucket);
  void keep(BucketOp bucket, const CopyPolicy &policy);
  void serve(BucketOp bucket, const CopyPolicy &policy);
  StateOp makeState(BucketOp bucket, const Tier &tier, AllGatherOp gather);

  MeshOp mesh;
  SymbolTable *table = nullptr;
  func::FuncOp init;
  /// Whether there are several micro-batches.
  bool hasSeveral = false;
  bool runsBetweenSteps = false;
  llvm::DenseMap<std::pair<StringAttr, unsigned>, Gathers> gathers;
};
} // namespace

void CachePass::collect() {
  gathers.clear();
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    FamilyMember which = getMember(function);
    for (auto gather : function.getOps<AllGatherOp>()) {
      if (gather.isOfGradient())
        continue;
      Axis axis =
          isOver(gather.getAxes(), Axis::local) ? Axis::local : Axis::node;
      gathers[{gather.getSourceAttr().getAttr(), static_cast<unsigned>(axis)}]
             [which]
                 .push_back(gather);
    }
  }
}

/// Erases `op` and the operations that fed only it.
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

/// Replaces the gather by the copy from `state`, which is of tier `source`.
static void replaceBy(Residency source, StateOp state, AllGatherOp gather) {
  OpBuilder builder(gather);
  Location loc = gather.getLoc();
  switch (getTier(source).fetchedBy) {
  case CopyFetch::gatherAll:
    return;
  case CopyFetch::load:
    return replaceGather(
        gather, CacheLoadOp::create(builder, loc, gather.getResult().getType(),
                                    state.getSymName(), FlatSymbolRefAttr(),
                                    StreamAttr(), BufferAttr()));
  case CopyFetch::gatherWithin:
  case CopyFetch::view:
    return replaceGather(gather, ReadStateOp::create(builder, loc,
                                                     state.getTensorType(),
                                                     state.getSymName()));
  }
}

/// Fills `state` of `tier` with the result of `gather`.
static void fill(const Tier &tier, StateOp state, AllGatherOp gather) {
  if (tier.filledBy == CopyFill::gather) {
    gather.setInto(state.getSymName());
    return;
  }
  OpBuilder builder(gather);
  builder.setInsertionPointAfter(gather);
  CacheStoreOp::create(builder, gather.getLoc(), gather.getResult(),
                       state.getSymName(), StreamAttr());
}

/// Copies `gather` and its inputs to the end of `init`.
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

StateOp CachePass::makeState(BucketOp bucket, const Tier &tier,
                             AllGatherOp gather) {
  StateOp state =
      createState(bucket, *tier.role, gather.getResult().getType(), tier.arena);
  table->insert(state, std::next(Block::iterator(bucket)));
  return state;
}

CopyPolicy CachePass::makePolicy(BucketOp bucket) {
  CopyDecision decision;
  decision.residency = *bucket.getResidency();
  decision.carry = bucket.getCarry().value_or(decision.residency);
  decision.isTrainable = bucket.getTrainable();
  decision.hasSeveral = hasSeveral;
  decision.isUsedAgain = false;
  for (auto &[which, ofFunction] : gathersOf(bucket, Axis::node))
    decision.isUsedAgain |= isMicrobatch(which.role) && ofFunction.size() > 1;
  decision.runsBetweenSteps = runsBetweenSteps;
  decision.isReference = gathersReferToSlice(bucket);
  return CopyPolicy(decision);
}

/// Replaces later gathers of a function by the result of the first, if it stays
/// on the device.
void CachePass::keep(BucketOp bucket, const CopyPolicy &policy) {
  const Tier &tier = getTier(policy.within);
  if (tier.filledBy != CopyFill::gather)
    return;
  for (auto &[which, ofFunction] : gathersOf(bucket, getAxis(tier)))
    for (AllGatherOp later : llvm::drop_begin(ofFunction))
      replaceGather(later, ofFunction.front().getResult());
}

/// Makes the bucket's state, fills it, and replaces the remaining gathers by
/// it.
void CachePass::serve(BucketOp bucket, const CopyPolicy &policy) {
  if (policy.state == Residency::drop)
    return;
  const Tier &tier = getTier(policy.state);
  StateOp state;
  for (auto &[which, ofFunction] : gathersOf(bucket, getAxis(tier))) {
    const CopyActions &actions = policy.get(which.role);
    AllGatherOp first = ofFunction.front();
    if (!state) {
      state = makeState(bucket, tier, first);
      if (policy.get(Role::init).fillsState)
        fill(tier, state, cloneInto(init, first));
    }
    // One step of the family may use a copy once that others use again.
    bool isUnread = policy.isInMicrobatch && isMicrobatch(which.role) &&
                    ofFunction.size() == 1 && !gathersReferToSlice(bucket);
    if (actions.fillsState && !isUnread)
      fill(tier, state, first);
    for (AllGatherOp later : llvm::drop_begin(ofFunction))
      replaceBy(actions.later, state, later);
    replaceBy(actions.first, state, first);
  }
}

void CachePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  // Buckets that already have a state stay as they are.
  llvm::DenseSet<StringAttr> served;
  for (auto state : module.getOps<StateOp>())
    if (isKeptIn(state.getRole(), state.getArena()))
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
  init = findFunction(module, Role::init);
  hasSeveral = !!findFunction(module, Role::first_microbatch);
  runsBetweenSteps = fcdp::runsBetweenSteps(module);

  collect();
  SmallVector<CopyPolicy> policies;
  for (BucketOp bucket : buckets)
    policies.push_back(makePolicy(bucket));
  for (auto [bucket, policy] : llvm::zip_equal(buckets, policies))
    keep(bucket, policy);
  collect();
  for (auto [bucket, policy] : llvm::zip_equal(buckets, policies))
    serve(bucket, policy);
}
