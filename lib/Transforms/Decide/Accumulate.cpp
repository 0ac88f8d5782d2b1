// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace fcdp {
#define GEN_PASS_DEF_ACCUMULATEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// The operations with which a function sums the gradients of one bucket.
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
  StateOp findOrMakeState(BucketOp bucket, Accumulation mode);
  void rewrite(func::FuncOp function);
  void rewrite(Reduction &reduction, BucketOp bucket, Accumulation mode,
               Role role);
  void finishPending(OpBuilder &builder);

  SymbolTable *table = nullptr;
  MeshOp mesh;
  /// A result that is reduced between nodes and will be accumulated together
  /// with the next one.
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
                                 step.getAxes(), StreamAttr(), BufferAttr(),
                                 BufferAttr());
}

static StateRole getSumRole(Accumulation mode) {
  switch (mode) {
  case Accumulation::sharded:
    return StateRole::grad;
  case Accumulation::node:
    return StateRole::node_grad;
  case Accumulation::node_host:
    return StateRole::host_grad;
  case Accumulation::full:
    return StateRole::full_grad;
  }
  llvm_unreachable("unknown accumulation");
}

/// Adds `part` to `state`. Gives the sum, if no micro-batch follows.
static Value addOnDevice(OpBuilder &builder, StateOp state, Value part,
                         Role role) {
  bool starts = role == Role::first_microbatch;
  AccumulateOp::create(builder, part.getLoc(), part, state.getSymName(),
                       starts ? Accumulate::overwrite : Accumulate::add);
  if (role != Role::last_microbatch)
    return {};
  return ReadStateOp::create(builder, part.getLoc(), state.getTensorType(),
                             state.getSymName());
}

/// Adds `part` to an accumulator in host memory, which is loaded at `atLoad`,
/// while `part` is computed.
static Value addInHost(OpBuilder &builder, Operation *atLoad, StateOp state,
                       Value part, Role role) {
  Value sum = part;
  if (role != Role::first_microbatch) {
    OpBuilder loading(atLoad);
    auto loaded = CacheLoadOp::create(
        loading, part.getLoc(), state.getTensorType(), state.getSymName(),
        FlatSymbolRefAttr(), StreamAttr(), BufferAttr());
    sum = AddOp::create(builder, part.getLoc(), state.getTensorType(), loaded,
                        part, BufferAttr());
  }
  if (role == Role::last_microbatch)
    return sum;
  CacheStoreOp::create(builder, part.getLoc(), sum, state.getSymName(),
                       StreamAttr());
  return {};
}

StateOp AccumulatePass::findOrMakeState(BucketOp bucket, Accumulation mode) {
  StateRole role = getSumRole(mode);
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
                             Accumulation mode, Role role) {
  auto isOverNodes = [](ReduceScatterOp step) {
    return isOver(step.getAxes(), Axis::node);
  };
  // The number of steps before the sum. The others come after it.
  ArrayRef<ReduceScatterOp> steps = reduction.steps;
  size_t before = mode == Accumulation::full || isOverNodes(steps[0]) ? 0 : 1;
  if (before == steps.size())
    return; // one node: nothing is left to reduce
  StateOp state = findOrMakeState(bucket, mode);
  Type gradient = reduction.pack.getResult().getType().getElementType();

  // Next to its producer what each rank has, where it stood what is reduced, so
  // that the reduction overlaps with compute.
  OpBuilder builder(reduction.sum);
  finishPending(builder);
  bool isInHost = state.getArena() == Arena::host;
  if (before == 0 && !isInHost) // else the load overlaps with compute, too
    builder.setInsertionPointAfter(reduction.pack);
  Value part = reduction.pack;
  if (before == 1) {
    OpBuilder atStep(steps[0]);
    part = cloneStep(atStep, steps[0], part, state.getTensorType());
  }
  part = castTo(builder, part, state.getTensorType().getElementType());
  Value sum = isInHost ? addInHost(builder, reduction.pack, state, part, role)
                       : addOnDevice(builder, state, part, role);
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
  if (!isMicrobatch(role) || role == Role::only_microbatch)
    return;
  for (AccumulateOp sum :
       llvm::make_early_inc_range(function.getOps<AccumulateOp>())) {
    auto bucket = table->lookup<BucketOp>(sum.getTarget());
    Reduction reduction = findReduction(sum);
    // Without a pack it is what this pass has made.
    if (!bucket || !bucket.getAccumulation() || !reduction.pack ||
        reduction.steps.empty() ||
        bucket.getAccumulation() == Accumulation::sharded)
      continue;
    rewrite(reduction, bucket, *bucket.getAccumulation(), role);
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
