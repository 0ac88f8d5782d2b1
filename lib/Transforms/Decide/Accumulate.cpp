// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Planning/Residency/SumPolicy.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace fcdp {
#define GEN_PASS_DEF_ACCUMULATEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// The operations with which a function reduces and accumulates the gradients
/// of one bucket.
struct Reduction {
  PackOp pack;
  /// The steps from the pack to the accumulate, in order.
  SmallVector<ReduceScatterOp> steps;
  /// The gathers from the last step to the accumulate, in order.
  SmallVector<AllGatherOp> gathers;
  AccumulateOp sum;
};

class AccumulatePass : public fcdp::impl::AccumulatePassBase<AccumulatePass> {
public:
  void runOnOperation() override;

private:
  StateOp findOrMakeState(BucketOp bucket, StateRole role);
  void rewrite(func::FuncOp function);
  void rewrite(Reduction &reduction, BucketOp bucket, const SumPolicy &policy,
               const SumActions &actions);
  void finishPending(OpBuilder &builder);

  SymbolTable *table = nullptr;
  MeshOp mesh;
  /// A result that is reduced between nodes, and is accumulated together with
  /// the next one.
  Value pending;
  StringRef pendingBucket;
};
} // namespace

static Reduction findReduction(AccumulateOp sum) {
  Reduction reduction;
  reduction.sum = sum;
  Value value = sum.getValue();
  while (auto gather = value.getDefiningOp<AllGatherOp>()) {
    reduction.gathers.push_back(gather);
    value = gather.getInput();
  }
  std::reverse(reduction.gathers.begin(), reduction.gathers.end());
  while (auto step = value.getDefiningOp<ReduceScatterOp>()) {
    reduction.steps.push_back(step);
    value = step.getInput();
  }
  std::reverse(reduction.steps.begin(), reduction.steps.end());
  reduction.pack = value.getDefiningOp<PackOp>();
  return reduction;
}

static Value castTo(OpBuilder &builder, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return CastShardOp::create(builder, value.getLoc(), type.clone(element),
                             value, BufferAttr());
}

static ReduceScatterOp cloneStep(OpBuilder &builder, ReduceScatterOp step,
                                 Value input, Type result) {
  return ReduceScatterOp::create(builder, step.getLoc(), result, input,
                                 step.getSourceAttr(), step.getMeshAttr(),
                                 step.getAxes());
}

/// Adds `part` to `state`. Returns the accumulated gradient if no micro-batch
/// follows, else null.
static Value addOnDevice(OpBuilder &builder, StateOp state, Value part,
                         const SumActions &actions) {
  AccumulateOp::create(builder, part.getLoc(), part, state.getSymName(),
                       actions.adds ? Accumulate::add : Accumulate::overwrite);
  if (actions.keeps)
    return {};
  return ReadStateOp::create(builder, part.getLoc(), state.getTensorType(),
                             state.getSymName());
}

/// Adds `part` to an accumulator in host memory. It is loaded at `atLoad`,
/// while `part` is computed.
static Value addInHost(OpBuilder &builder, Operation *atLoad, StateOp state,
                       Value part, const SumActions &actions) {
  Value sum = part;
  if (actions.adds) {
    OpBuilder loading(atLoad);
    auto loaded = CacheLoadOp::create(
        loading, part.getLoc(), state.getTensorType(), state.getSymName(),
        FlatSymbolRefAttr(), StreamAttr(), BufferAttr());
    sum = AddOp::create(builder, part.getLoc(), state.getTensorType(), loaded,
                        part, BufferAttr());
  }
  if (!actions.keeps)
    return sum;
  CacheStoreOp::create(builder, part.getLoc(), sum, state.getSymName(),
                       StreamAttr());
  return {};
}

StateOp AccumulatePass::findOrMakeState(BucketOp bucket, StateRole role) {
  StateOp state = createState(bucket, role, getStateType(bucket, role, mesh));
  if (auto existing = table->lookup<StateOp>(state.getSymName())) {
    state.erase();
    return existing;
  }
  table->insert(state, std::next(Block::iterator(bucket)));
  return state;
}

void AccumulatePass::finishPending(OpBuilder &builder) {
  if (pending)
    AccumulateOp::create(builder, pending.getLoc(), pending, pendingBucket,
                         Accumulate::overwrite);
  pending = {};
}

void AccumulatePass::rewrite(Reduction &reduction, BucketOp bucket,
                             const SumPolicy &policy,
                             const SumActions &actions) {
  // The number of reduction steps before the accumulation; the others follow
  // it. Nodes of one rank have no step within the node.
  ArrayRef<ReduceScatterOp> steps = reduction.steps;
  bool isWithin = !isOver(ReduceScatterOp(steps[0]).getAxes(), Axis::node);
  size_t before = policy.level == SumLevel::node && isWithin ? 1 : 0;
  StateOp state = findOrMakeState(bucket, policy.state);
  Type gradient = reduction.pack.getResult().getType().getElementType();

  // An unreduced gradient is accumulated directly after its producer. A reduced
  // one is accumulated at the place of the original accumulate, so that the
  // reduction overlaps with compute.
  OpBuilder builder(reduction.sum);
  finishPending(builder);
  if (before == 0 &&
      !policy.isInHost()) // else the load overlaps with compute, too
    builder.setInsertionPointAfter(reduction.pack);
  Value part = reduction.pack;
  if (before == 1) {
    OpBuilder atStep(steps[0]);
    part = cloneStep(atStep, steps[0], part, state.getTensorType());
  }
  part = castTo(builder, part, state.getTensorType().getElementType());
  Value sum = policy.isInHost()
                  ? addInHost(builder, reduction.pack, state, part, actions)
                  : addOnDevice(builder, state, part, actions);
  if (sum) {
    sum = castTo(builder, sum, gradient);
    for (ReduceScatterOp step : steps.drop_front(before))
      sum = cloneStep(builder, step, sum, step.getResult().getType());
    for (AllGatherOp gather : reduction.gathers) {
      IRMapping mapping;
      mapping.map(gather.getInput(), sum);
      sum = builder.clone(*gather, mapping)->getResult(0);
    }
    pending = sum;
    pendingBucket = bucket.getSymName();
  }
  reduction.sum.erase();
  for (AllGatherOp gather : llvm::reverse(reduction.gathers))
    gather.erase();
  for (ReduceScatterOp step : llvm::reverse(steps))
    step.erase();
}

void AccumulatePass::rewrite(func::FuncOp function) {
  Role role = getRole(function);
  if (!isMicrobatch(role))
    return;
  bool hasSeveral = getMicroBatches(getOperation()) > 1;
  for (AccumulateOp sum :
       llvm::make_early_inc_range(function.getOps<AccumulateOp>())) {
    auto bucket = table->lookup<BucketOp>(sum.getTarget());
    Reduction reduction = findReduction(sum);
    // A reduction without a pack was made by this pass.
    if (!bucket || !bucket.getAccumulation() || !reduction.pack ||
        reduction.steps.empty())
      continue;
    SumPolicy policy({*bucket.getAccumulation(), bucket.getTrainable(),
                      hasSeveral, mesh.getNode() > 1});
    if (policy.level != SumLevel::all)
      rewrite(reduction, bucket, policy, policy.get(role));
  }
  OpBuilder builder(function.front().getTerminator());
  finishPending(builder);
}

void AccumulatePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (failed(verifyOneLevel(module)))
    return signalPassFailure();
  SymbolTable symbols(module);
  table = &symbols;
  mesh = getMesh(module);
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
    rewrite(function);
}
