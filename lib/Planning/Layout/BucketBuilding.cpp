// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Layout/BucketBuilding.h"

#include "fcdp/Analysis/BucketRanges.h"
#include "fcdp/Analysis/Casts.h"
#include "fcdp/Analysis/Identities.h"
#include "fcdp/Planning/Buckets/LayoutPlanning.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace fcdp;

BucketBuilder::BucketBuilder(ModuleOp module)
    : module(module), table(module), mesh(getMesh(module)) {}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

static TypeAttr typeOrNone(Type type) {
  return type ? TypeAttr::get(type) : TypeAttr();
}

/// Members start at multiples of 64 bytes in the wire type, and thus also in
/// the wider storage type.
llvm::Error BucketBuilder::add(const BucketGroup &group,
                               Block::iterator place) {
  ArrayRef<ParameterOp> members = group.members;
  auto layout = cast<LayoutAttr>(group.layout);
  int64_t alignment = kMemberAlignment / elementBytes(group.wire);
  if (layout.getKind() == LayoutKind::blocks)
    alignment = std::lcm(alignment, layout.getRows());
  LayoutProblem problem{{}, mesh.getWorldSize(), alignment, alignment};
  for (ParameterOp member : members)
    problem.tensors.push_back(
        {member.getTensorType().getNumElements(),
         layout.getBlockElements(member.getTensorType())});
  if (llvm::Error error = problem.check())
    return llvm::createStringError("bucket '" + group.getName() +
                                   "': " + toString(std::move(error)));
  LayoutSolution solution = planLayout(problem);
  std::optional<int64_t> elements =
      llvm::checkedMul(solution.shardElements, mesh.getWorldSize());
  if (!elements)
    return llvm::createStringError(llvm::formatv(
        "bucket '{0}': expected fewer than 2^63 elements, got {1} shards of "
        "{2}",
        group.getName(), mesh.getWorldSize(), solution.shardElements));

  MLIRContext *context = module.getContext();
  SmallVector<Attribute> places;
  for (auto [member, offset] : llvm::zip_equal(members, solution.offsets))
    places.push_back(MemberAttr::get(
        context, FlatSymbolRefAttr::get(ParameterOp(member).getSymNameAttr()),
        offset));
  OpBuilder builder(context);
  auto optimizer = dyn_cast_or_null<OptimizerAttrInterface>(group.optimizer);
  int64_t maxSide = optimizer ? optimizer.getMaxSide() : 0;
  auto bucket = BucketOp::create(
      builder, members.front()->getLoc(), group.getName(), group.unit,
      *elements, group.storage, group.wire, typeOrNone(group.reduce),
      typeOrNone(group.master), group.trainable,
      layout.getKind() == LayoutKind::flat ? LayoutAttr() : layout,
      maxSide ? builder.getI64IntegerAttr(maxSide) : IntegerAttr(),
      builder.getArrayAttr(places));
  std::optional<Arena> common;
  if (!group.buckets.empty())
    common = BucketOp(group.buckets.front()).getStates();
  bool areStreamed = common && *common != Arena::device &&
                     llvm::all_of(group.buckets, [&](BucketOp from) {
                       return from.getStates() == common;
                     });
  if (areStreamed) {
    bucket.setStates(*common);
    bucket.setPieceAttr(BucketOp(group.buckets.front()).getPieceAttr());
  }
  table.insert(bucket, place);
  addStates(bucket, group.optimizer, place);
  for (BucketOp from : group.buckets)
    buckets[from.getSymNameAttr()] = bucket;
  if (group.buckets.empty())
    for (ParameterOp member : members)
      buckets[member.getSymNameAttr()] = bucket;
  return llvm::Error::success();
}

/// Adds the states that every strategy needs.
void BucketBuilder::addStates(BucketOp bucket, Attribute optimizer,
                              Block::iterator place) {
  auto make = [&](StateRole role) {
    RankedTensorType type = getStateType(bucket, role, mesh);
    std::optional<Arena> arena;
    if (isOptimizerState(role))
      arena = bucket.getStates();
    table.insert(createState(bucket, role, type, arena), place);
  };
  make(StateRole::shard);
  if (!bucket.getTrainable())
    return;
  make(StateRole::grad);
  if (bucket.getMaster())
    make(StateRole::master);
  if (optimizer)
    for (StateRole role : cast<OptimizerAttrInterface>(optimizer).getStates())
      make(role);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static StringAttr unitOf(Operation *source) {
  if (auto bucket = dyn_cast<BucketOp>(source))
    return bucket.getUnitAttr();
  return cast<ParameterOp>(source).getUnitAttr();
}

llvm::DenseMap<Operation *, int64_t>
BucketBuilder::findRanges(func::FuncOp function) {
  SmallVector<SourceGather> gathers;
  for (auto gather : function.getOps<AllGatherOp>()) {
    Operation *source = table.lookup(gather.getSourceAttr().getAttr());
    BucketOp bucket = bucketOf(gather.getSourceAttr());
    gathers.push_back(
        {gather, unitOf(source), bucket ? bucket.getOperation() : source});
  }
  return findBucketRanges(gathers);
}

/// Returns the whole bucket in its wire type, gathered from this rank's shard.
Value BucketBuilder::gatherCopy(OpBuilder &builder, BucketOp bucket,
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
                             builder.getI64IntegerAttr(range));
}

/// Replaces `gather` by `whole` if it gathers the members of a bucket, or else
/// by a member of it.
static void replaceGather(AllGatherOp gather, Value whole, BucketOp bucket,
                          bool isOfMembers) {
  if (isOfMembers) {
    for (Operation *user : gather->getUsers())
      cast<ViewMemberOp>(user).setBucket(bucket.getSymName());
    gather.replaceAllUsesWith(whole);
  } else {
    OpBuilder builder(gather);
    auto view = ViewMemberOp::create(builder, gather.getLoc(),
                                     gather.getResult().getType(), whole,
                                     gather.getSource(), bucket.getSymName());
    gather.replaceAllUsesWith(view.getResult());
  }
  Operation *input = gather.getInput().getDefiningOp();
  gather.erase();
  // The operations to erase are the shard's read, and a cast between it and the
  // gather.
  while (input && input->use_empty()) {
    Operation *next = input->getNumOperands() == 1
                          ? input->getOperand(0).getDefiningOp()
                          : nullptr;
    input->erase();
    input = next;
  }
}

/// Merges the gathers of one bucket and live range into one, before the first.
void BucketBuilder::mergeGathers(func::FuncOp function) {
  llvm::DenseMap<Operation *, int64_t> ranges = findRanges(function);
  llvm::DenseMap<std::pair<Operation *, int64_t>, Value> wholes;
  for (AllGatherOp gather :
       llvm::make_early_inc_range(function.getOps<AllGatherOp>())) {
    FlatSymbolRefAttr source = gather.getSourceAttr();
    BucketOp bucket = bucketOf(source);
    if (!bucket)
      continue;
    int64_t range = ranges.lookup(gather);
    Value &whole = wholes[{bucket, range}];
    OpBuilder builder(gather);
    if (!whole)
      whole = gatherCopy(builder, bucket, gather, range);
    replaceGather(gather, whole, bucket,
                  isa<BucketOp>(table.lookup(source.getAttr())));
  }
}

namespace {
/// Gradients that are reduced together.
struct Gradients {
  SmallVector<Value> values;
  SmallVector<Attribute> names;
};
} // namespace

/// Returns the value that `gradient` is widened from if it has the element type
/// `type`. Reducing it in this type gives the same result.
static Value skipWidening(Value gradient, Type type) {
  Operation *op = gradient.getDefiningOp();
  FloatType wide = op ? getCastType(op) : FloatType();
  if (!wide || elementBytes(wide) <= elementBytes(type) ||
      getElementTypeOrSelf(op->getOperand(0)) != type)
    return gradient;
  return op->getOperand(0);
}

static Gradients collectGradients(ArrayRef<ReduceScatterOp> reductions,
                                  Type type) {
  Gradients gradients;
  for (ReduceScatterOp reduce : reductions) {
    if (auto pack = reduce.getInput().getDefiningOp<PackOp>()) {
      llvm::append_range(gradients.values, pack.getValues());
      llvm::append_range(gradients.names, pack.getParameters());
    } else {
      gradients.values.push_back(skipWidening(reduce.getInput(), type));
      gradients.names.push_back(reduce.getSourceAttr());
    }
  }
  return gradients;
}

/// Erases a reduction with its accumulate, and the pack or the cast of its
/// input if nothing else reads it.
static void erase(ReduceScatterOp reduce) {
  (*reduce->user_begin())->erase();
  Operation *input = reduce.getInput().getDefiningOp();
  reduce.erase();
  if (input && input->use_empty() && (isa<PackOp>(input) || getCastType(input)))
    input->erase();
}

/// Packs the gradients of a bucket after the last of them, and reduces them
/// together. A result is accumulated when the next pack begins, so that at most
/// one reduction is in flight and overlaps with compute.
void BucketBuilder::mergeReductions(func::FuncOp function) {
  llvm::MapVector<Operation *, SmallVector<ReduceScatterOp>> groups;
  for (auto reduce : function.getOps<ReduceScatterOp>()) {
    BucketOp bucket = bucketOf(reduce.getSourceAttr());
    groups[bucket ? bucket.getOperation()
                  : table.lookup(reduce.getSourceAttr().getAttr())]
        .push_back(reduce);
  }
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
    mode = cast<AccumulateOp>(*last->user_begin()).getMode();
    Type type = bucket.getReduce().value_or(
        cast<RankedTensorType>(last.getInput().getType()).getElementType());
    Gradients gradients = collectGradients(reductions, type);
    auto elements = static_cast<int64_t>(bucket.getElements());
    auto name = FlatSymbolRefAttr::get(bucket.getSymNameAttr());
    auto packed = PackOp::create(
        builder, last.getLoc(), RankedTensorType::get({elements}, type), name,
        gradients.values, builder.getArrayAttr(gradients.names), ArrayAttr(),
        BufferAttr());
    pending = ReduceScatterOp::create(
        builder, last.getLoc(),
        RankedTensorType::get({elements / mesh.getWorldSize()},
                              builder.getF32Type()),
        packed, name, last.getMeshAttr(), last.getAxes());
    pendingBucket = name;
    llvm::for_each(reductions, erase);
  }
  OpBuilder builder(function.front().getTerminator());
  accumulate(builder);
}

void BucketBuilder::mergeUpdates(func::FuncOp function) {
  llvm::DenseSet<Operation *> done;
  for (ShardUpdateOp update :
       llvm::make_early_inc_range(function.getOps<ShardUpdateOp>())) {
    BucketOp bucket = bucketOf(update.getTargetAttr());
    if (!bucket)
      continue;
    if (done.insert(bucket).second)
      update.setTargetAttr(FlatSymbolRefAttr::get(bucket.getSymNameAttr()));
    else
      update.erase();
  }
}

void BucketBuilder::moveFunctions() {
  for (auto function : module.getOps<func::FuncOp>()) {
    mergeGathers(function);
    mergeReductions(function);
    mergeUpdates(function);
    noteIdentities(function);
  }
}
