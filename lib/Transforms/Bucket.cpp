// SPDX-License-Identifier: Apache-2.0

#include "BucketGroups.h"
#include "CutStates.h"
#include "VerifyPhase.h"
#include "fcdp/Analysis/BucketRanges.h"
#include "fcdp/Scheduling/LayoutPlanning.h"
#include "fcdp/Transforms/LayoutSpec.h"
#include "fcdp/Transforms/Strategy.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/CheckedArithmetic.h"

namespace fcdp {
#define GEN_PASS_DEF_BUCKETPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class BucketPass : public fcdp::impl::BucketPassBase<BucketPass> {
public:
  using BucketPassBase::BucketPassBase;
  void runOnOperation() override;

private:
  LogicalResult readOptions();
  LogicalResult checkInput();
  FailureOr<BucketOp> makeBucket(SymbolTable &table, const BucketGroup &group);
  void makeStates(SymbolTable &table, BucketOp bucket);
  llvm::DenseMap<Operation *, int64_t> findRanges(func::FuncOp function,
                                                  const SymbolTable &table);
  void mergeGathers(func::FuncOp function, const SymbolTable &table);
  Value gatherCopy(OpBuilder &builder, BucketOp bucket, AllGatherOp like,
                   int64_t range);
  void mergeReductions(func::FuncOp function);
  void mergeUpdates(func::FuncOp function);
  BucketOp bucketOf(FlatSymbolRefAttr parameter) {
    return buckets.lookup(parameter.getAttr());
  }

  MeshOp mesh;
  /// The option, read.
  LayoutAttr blocks;
  /// Where symbols go: in front of the first function.
  Block::iterator symbolsEnd;
  /// Null for a module without trainable parameters.
  Attribute optimizer;
  /// By the parameter's symbol name.
  llvm::DenseMap<StringAttr, BucketOp> buckets;
};
} // namespace

/// Buckets are updated as one, and a reduced gradient goes to its accumulator.
LogicalResult BucketPass::checkInput() {
  ShardUpdateOp first;
  WalkResult result = getOperation()->walk([&](Operation *op) {
    if (auto update = dyn_cast<ShardUpdateOp>(op)) {
      if (!first)
        first = update;
      if (update.getOptimizer() != first.getOptimizer() ||
          update.getScale() != first.getScale()) {
        InFlightDiagnostic diag = op->emitOpError(
            "expected the optimizer and scale of all other updates");
        diag.attachNote(first.getLoc()) << "this one differs";
        return WalkResult::interrupt();
      }
    } else if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
      if (!reduce->hasOneUse() || !isa<AccumulateOp>(*reduce->user_begin())) {
        op->emitOpError("expected one use of its result, by an accumulate");
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  if (first)
    optimizer = first.getOptimizer();
  return failure(result.wasInterrupted());
}

/// Members start at multiples of 64 bytes in the wire type, so also in the
/// wider storage type.
FailureOr<BucketOp> BucketPass::makeBucket(SymbolTable &table,
                                           const BucketGroup &group) {
  ArrayRef<ParameterOp> members = group.members;
  ParameterOp first = members.front();
  int64_t alignment = kMemberAlignment / elementBytes(group.wire);
  LayoutProblem problem{{}, mesh.getWorldSize(), alignment, alignment};
  for (ParameterOp member : members)
    problem.tensors.push_back(
        {member.getTensorType().getNumElements(),
         blocks.getBlockElements(member.getTensorType())});
  if (llvm::Error error = problem.check())
    return first.emitError("bucket '")
           << group.getName() << "': " << toString(std::move(error));
  LayoutSolution solution = planLayout(problem);
  std::optional<int64_t> elements =
      llvm::checkedMul(solution.shardElements, mesh.getWorldSize());
  if (!elements)
    return first.emitError("bucket '")
           << group.getName() << "': expected fewer than 2^63 elements, got "
           << mesh.getWorldSize() << " shards of " << solution.shardElements;

  SmallVector<Attribute> places;
  for (auto [member, offset] : llvm::zip_equal(members, solution.offsets))
    places.push_back(MemberAttr::get(
        &getContext(),
        FlatSymbolRefAttr::get(ParameterOp(member).getSymNameAttr()), offset));
  OpBuilder builder(&getContext());
  auto bucket = BucketOp::create(
      builder, first.getLoc(), group.getName(), group.unit, *elements,
      group.storage, group.wire, group.trainable, Sharding::world,
      blocks.getKind() == LayoutKind::flat ? LayoutAttr() : blocks,
      ResidencyAttr(), ResidencyAttr(), AccumulationAttr(), CollectivesAttr(),
      builder.getArrayAttr(places));
  table.insert(bucket, symbolsEnd);
  for (ParameterOp member : members)
    buckets[member.getSymNameAttr()] = bucket;
  return bucket;
}

/// The states of every strategy.
void BucketPass::makeStates(SymbolTable &table, BucketOp bucket) {
  auto make = [&](StateRole role) {
    RankedTensorType type = getStateType(bucket, role, mesh);
    table.insert(createState(bucket, role, type), symbolsEnd);
  };
  make(StateRole::shard);
  if (!bucket.getTrainable())
    return;
  make(StateRole::grad);
  if (isa_and_present<AdamWAttr>(optimizer)) {
    make(StateRole::exp_avg);
    make(StateRole::exp_avg_sq);
  } else if (auto sgd = dyn_cast_if_present<SGDAttr>(optimizer)) {
    if (sgd.getMomentum().getValueAsDouble() != 0)
      make(StateRole::momentum_buffer);
  }
}

llvm::DenseMap<Operation *, int64_t>
BucketPass::findRanges(func::FuncOp function, const SymbolTable &table) {
  SmallVector<MemberGather> gathers;
  for (auto gather : function.getOps<AllGatherOp>())
    gathers.push_back(
        {gather, table.lookup<ParameterOp>(gather.getSourceAttr().getAttr()),
         bucketOf(gather.getSourceAttr())});
  return findBucketRanges(gathers);
}

/// The whole bucket in its wire type, from this rank's shard.
Value BucketPass::gatherCopy(OpBuilder &builder, BucketOp bucket,
                             AllGatherOp like, int64_t range) {
  RankedTensorType type = getStateType(bucket, StateRole::shard, mesh);
  Value part =
      ReadShardOp::create(builder, like.getLoc(), type, bucket.getSymName());
  if (bucket.getWire() != bucket.getStorage())
    part =
        CastShardOp::create(builder, like.getLoc(),
                            type.clone(bucket.getWire()), part, BufferAttr());
  auto whole = RankedTensorType::get(
      {static_cast<int64_t>(bucket.getElements())}, bucket.getWire());
  return AllGatherOp::create(builder, like.getLoc(), whole, part,
                             FlatSymbolRefAttr::get(bucket.getSymNameAttr()),
                             like.getMeshAttr(), like.getAxes(),
                             builder.getI64IntegerAttr(range),
                             FlatSymbolRefAttr(), StreamAttr(), BufferAttr());
}

/// Gathers of one bucket and live range become one, in front of the first.
void BucketPass::mergeGathers(func::FuncOp function, const SymbolTable &table) {
  llvm::DenseMap<Operation *, int64_t> ranges = findRanges(function, table);
  llvm::DenseMap<std::pair<Operation *, int64_t>, Value> wholes;
  for (AllGatherOp gather :
       llvm::make_early_inc_range(function.getOps<AllGatherOp>())) {
    BucketOp bucket = bucketOf(gather.getSourceAttr());
    int64_t range = ranges.lookup(gather);
    Value &whole = wholes[{bucket, range}];
    OpBuilder builder(gather);
    if (!whole)
      whole = gatherCopy(builder, bucket, gather, range);
    auto view = ViewMemberOp::create(builder, gather.getLoc(),
                                     gather.getResult().getType(), whole,
                                     gather.getSource(), bucket.getSymName());
    Operation *input = gather.getInput().getDefiningOp();
    gather.replaceAllUsesWith(view.getResult());
    gather.erase();
    // The shard's read, and a cast between it and the gather.
    while (input && input->use_empty()) {
      Operation *next = input->getNumOperands() == 1
                            ? input->getOperand(0).getDefiningOp()
                            : nullptr;
      input->erase();
      input = next;
    }
  }
}

/// Gradients of a bucket are packed behind the last of them and reduced
/// together. The sum before is accumulated when the next pack begins, so that
/// one reduction overlaps with compute and no more are in flight.
void BucketPass::mergeReductions(func::FuncOp function) {
  llvm::MapVector<Operation *, SmallVector<ReduceScatterOp>> groups;
  for (auto reduce : function.getOps<ReduceScatterOp>())
    groups[bucketOf(reduce.getSourceAttr())].push_back(reduce);
  auto ready = groups.takeVector();
  llvm::sort(ready, [](const auto &a, const auto &b) {
    return a.second.back()->isBeforeInBlock(b.second.back());
  });

  Value pending;
  FlatSymbolRefAttr pendingBucket;
  Accumulate mode = Accumulate::overwrite;
  auto accumulate = [&](OpBuilder &builder) {
    if (pending)
      AccumulateOp::create(builder, pending.getLoc(), pending,
                           pendingBucket.getValue(), mode);
  };
  for (auto &[op, reductions] : ready) {
    auto bucket = cast<BucketOp>(op);
    ReduceScatterOp last = reductions.back();
    OpBuilder builder(last);
    accumulate(builder);
    SmallVector<Value> values;
    SmallVector<Attribute> names;
    for (ReduceScatterOp reduce : reductions) {
      values.push_back(reduce.getInput());
      names.push_back(reduce.getSourceAttr());
      auto user = cast<AccumulateOp>(*reduce->user_begin());
      mode = user.getMode();
      user.erase();
    }
    auto elements = static_cast<int64_t>(bucket.getElements());
    auto name = FlatSymbolRefAttr::get(bucket.getSymNameAttr());
    Type gradient =
        cast<RankedTensorType>(values[0].getType()).getElementType();
    auto packed = PackOp::create(
        builder, last.getLoc(), RankedTensorType::get({elements}, gradient),
        name, values, builder.getArrayAttr(names), BufferAttr());
    pending = ReduceScatterOp::create(
        builder, last.getLoc(),
        RankedTensorType::get({elements / mesh.getWorldSize()},
                              builder.getF32Type()),
        packed, name, last.getMeshAttr(), last.getAxes(), StreamAttr(),
        BufferAttr(), BufferAttr());
    pendingBucket = name;
    for (ReduceScatterOp reduce : reductions)
      reduce.erase();
  }
  OpBuilder builder(function.front().getTerminator());
  accumulate(builder);
}

void BucketPass::mergeUpdates(func::FuncOp function) {
  llvm::DenseSet<Operation *> done;
  for (ShardUpdateOp update :
       llvm::make_early_inc_range(function.getOps<ShardUpdateOp>())) {
    BucketOp bucket = bucketOf(update.getTargetAttr());
    if (done.insert(bucket).second)
      update.setTargetAttr(FlatSymbolRefAttr::get(bucket.getSymNameAttr()));
    else
      update.erase();
  }
}

LogicalResult BucketPass::readOptions() {
  ModuleOp module = getOperation();
  llvm::Expected<LayoutAttr> kind = parseLayout(layout, &getContext());
  if (!kind)
    return module.emitError("layout: ") << toString(kind.takeError());
  blocks = *kind;
  if (sharding != kAutoStrategy && !symbolizeSharding(sharding))
    return module.emitError("sharding: expected 'world', 'node', 'none' or "
                            "'auto', got '")
           << sharding << "'";
  return success();
}

void BucketPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (failed(readOptions()))
    return signalPassFailure();
  mesh = getMesh(module);
  buckets.clear();
  optimizer = {};
  if (!module.getOps<BucketOp>().empty())
    return; // the layout is final
  if (failed(checkInput()))
    return signalPassFailure();
  symbolsEnd = Block::iterator(*module.getOps<func::FuncOp>().begin());
  SymbolTable table(module);
  SmallVector<BucketGroup> groups = collectBucketGroups(module);
  if (failed(mergeBucketGroups(module, groups,
                               {{}, bucketBytes, latency, bandwidth})))
    return signalPassFailure();
  for (const BucketGroup &group : groups) {
    FailureOr<BucketOp> bucket = makeBucket(table, group);
    if (failed(bucket))
      return signalPassFailure();
    makeStates(table, *bucket);
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    mergeGathers(function, table);
    mergeReductions(function);
    mergeUpdates(function);
  }
  if (sharding == kAutoStrategy)
    module->setAttr(kOpenShardingAttr, UnitAttr::get(&getContext()));
  else
    cutStates(module, *symbolizeSharding(sharding));
  if (bucketBytes > 0)
    module->setAttr(kBucketBytesAttr,
                    Builder(&getContext()).getI64IntegerAttr(bucketBytes));
}
