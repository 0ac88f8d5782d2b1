// SPDX-License-Identifier: Apache-2.0

#include "PlanOps.h"

#include "PlanValues.h"
#include "dialects/Aten/OpTable.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fcdp;

PlanOps::PlanOps(ModuleOp module, const Places &places, const SlotTable &slots)
    : places(places), slots(slots) {
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  isForGpu = target && target.getValue() == "cuda";
  for (auto bucket : module.getOps<BucketOp>())
    buckets.try_emplace(bucket.getSymNameAttr(), buckets.size());
  for (auto buffer : module.getOps<BufferOp>())
    buffers.try_emplace(buffer.getSymNameAttr(), buffers.size());
}

namespace {
/// The schema's table for an operation.
template <typename OpTy>
struct BodyOf;
#define FCDP_BODY(OP, KIND, TABLE)                                             \
  template <>                                                                  \
  struct BodyOf<OP> {                                                          \
    using Table = plan::TABLE;                                                 \
    static constexpr plan::OpBody kind = plan::OpBody::KIND;                   \
  };
FCDP_BODY(aten::CallOp, aten_call, AtenCallT)
FCDP_BODY(WriteBufferOp, write_buffer, WriteBufferT)
FCDP_BODY(LossOp, loss, LossT)
FCDP_BODY(CastShardOp, cast, CastT)
FCDP_BODY(PackOp, pack, PackBucketT)
FCDP_BODY(AccumulateOp, accumulate, AccumulateT)
FCDP_BODY(AddOp, add, AddT)
FCDP_BODY(ClipGradientsOp, clip_gradients, ClipGradientsT)
FCDP_BODY(ShardUpdateOp, shard_update, ShardUpdateT)
FCDP_BODY(AllGatherOp, all_gather, AllGatherT)
FCDP_BODY(ReduceScatterOp, reduce_scatter, ReduceScatterT)
FCDP_BODY(CacheStoreOp, cache_store, CacheCopyT)
FCDP_BODY(CacheLoadOp, cache_load, CacheCopyT)
FCDP_BODY(RecordOp, record, EventT)
FCDP_BODY(WaitOp, wait, EventT)
#undef FCDP_BODY
} // namespace

LogicalResult PlanOps::add(Operation *op, plan::PlanT &plan) {
  plan::OpT &out = *plan.ops.emplace_back(std::make_unique<plan::OpT>());
  if (!isa<RecordOp, WaitOp>(op))
    setLocation(out, op->getLoc());
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<aten::CallOp, WriteBufferOp, LossOp, CastShardOp, PackOp,
            AccumulateOp, AddOp, ClipGradientsOp, ShardUpdateOp, AllGatherOp,
            ReduceScatterOp, CacheStoreOp, CacheLoadOp, RecordOp, WaitOp>(
          [&](auto typed) {
            using Body = BodyOf<decltype(typed)>;
            auto *body = new typename Body::Table;
            out.body.type = Body::kind;
            out.body.value = body; // owned
            return fill(*body, typed);
          })
      .DefaultUnreachable("the operation was collected");
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

LogicalResult PlanOps::setSlot(uint32_t &out, Value value, Operation *op) {
  int64_t slot = slots.lookup(value);
  if (slot < 0)
    return op->emitOpError("expected a tensor, got a value of type ")
           << value.getType() << " that has no slot";
  out = slot;
  return success();
}

LogicalResult PlanOps::setPlace(plan::Buf &out, StringRef key, Value value,
                                Operation *op) {
  BufferAttr place = places.lookup(value);
  if (!place)
    return op->emitOpError("expected '")
           << key << "' to have a place in an arena";
  out = toBuf(place);
  return success();
}

/// Sets the index of `bucket`.
template <typename IndexTy>
static LogicalResult
setBucket(IndexTy &out, FlatSymbolRefAttr bucket, Operation *op,
          const llvm::DenseMap<StringAttr, uint32_t> &buckets) {
  auto it = buckets.find(bucket.getAttr());
  if (it == buckets.end())
    return op->emitOpError("expected a bucket, got ") << bucket;
  out = it->second;
  return success();
}

static plan::Axis toAxis(ArrayAttr axes) {
  if (isOver(axes, Axis::node) && isOver(axes, Axis::local))
    return plan::Axis::world;
  return findByName(stringifyAxis(cast<AxisAttr>(axes[0]).getValue()),
                    plan::EnumValuesAxis(), plan::EnumNamesAxis());
}

static LogicalResult setStream(plan::Stream &out, std::optional<Stream> stream,
                               Operation *op) {
  if (!stream)
    return op->emitOpError("expected a stream; run --fcdp-schedule first");
  out = toStream(*stream);
  return success();
}

/// Sets the types and the number of elements of what converts `in` to `out`.
template <typename TableTy>
static LogicalResult setTypes(TableTy &table, Value in, Value out,
                              Operation *op) {
  auto inType = cast<RankedTensorType>(in.getType());
  auto outType = cast<RankedTensorType>(out.getType());
  table.elements = inType.getNumElements();
  return success(
      succeeded(setDType(table.inType, inType.getElementType(), op)) &&
      succeeded(setDType(table.outType, outType.getElementType(), op)));
}

std::vector<uint32_t> PlanOps::getFreed(Operation *op) const {
  ArrayRef<int64_t> freed = slots.getFreed(op);
  return {freed.begin(), freed.end()};
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static plan::Alias toAlias(aten::Aliasing aliasing) {
  switch (aliasing) {
  case aten::Aliasing::Fresh:
    return plan::Alias::fresh;
  case aten::Aliasing::View:
    return plan::Alias::view;
  case aten::Aliasing::Unknown:
    return plan::Alias::unknown;
  }
  llvm_unreachable("unknown aliasing");
}

LogicalResult PlanOps::fill(plan::AtenCallT &out, aten::CallOp op) {
  auto [callee, overload] = op.getCallee().rsplit('.');
  auto [space, name] = callee.split('.');
  out.callee = (space + "::" + name).str();
  if (slots.getOut(op) >= 0) {
    out.overload = aten::lookupOut(op.getCallee()).str();
    out.functional = overload.str();
    out.alias = plan::Alias::unknown;
  } else {
    out.overload = overload == "default" ? "" : overload.str();
    out.alias = toAlias(aten::lookupOp(op.getCallee()).aliasing);
  }
  out.replayable = isForGpu && op.isReplayable();
  out.free = getFreed(op);
  ArrayRef<int64_t> undefined = op.getUndefined().value_or(ArrayRef<int64_t>());
  size_t count = op.getNumResults() + undefined.size();
  auto defined = op.getResults().begin();
  for (size_t position = 0; position < count; ++position)
    out.results.push_back(llvm::is_contained(undefined, position)
                              ? -1
                              : slots.lookup(*defined++));
  return fillArguments(out, op, slots);
}

LogicalResult PlanOps::fill(plan::WriteBufferT &out, WriteBufferOp op) {
  out.buffer = buffers.lookup(op.getTargetAttr().getAttr());
  out.free = getFreed(op);
  return setSlot(out.slot, op.getValue(), op);
}

LogicalResult PlanOps::fill(plan::LossT &out, LossOp op) {
  out.free = getFreed(op);
  return setSlot(out.slot, op.getValue(), op);
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

LogicalResult PlanOps::fill(plan::CastT &out, CastShardOp op) {
  return success(succeeded(setPlace(out.in, "in", op.getInput(), op)) &&
                 succeeded(setPlace(out.out, "out", op.getResult(), op)) &&
                 succeeded(setTypes(out, op.getInput(), op.getResult(), op)));
}

/// Finds the parts of a pack that no packed value fills: padding, and members
/// without a gradient.
static std::vector<plan::Buf> findGaps(PackOp op, const Places &places) {
  llvm::DenseSet<Attribute> given(op.getParameters().begin(),
                                  op.getParameters().end());
  BufferAttr whole = places.lookup(op.getResult());
  std::vector<plan::Buf> gaps;
  int64_t end = 0;
  auto closeGap = [&](int64_t begin) {
    if (begin > end)
      gaps.push_back(toBuf(slice(whole, end, begin - end)));
  };
  BucketOp bucket = places.getBucket(op.getBucketAttr().getAttr());
  for (MemberAttr member : bucket.getMembers().getAsRange<MemberAttr>()) {
    if (!given.contains(member.getParameter()))
      continue;
    BufferAttr place = places.getMember(op, member.getParameter());
    int64_t begin = place.getOffset() - whole.getOffset();
    closeGap(begin);
    end = begin + place.getBytes();
  }
  closeGap(whole.getBytes());
  return gaps;
}

LogicalResult PlanOps::fill(plan::PackBucketT &out, PackOp op) {
  llvm::DenseSet<Attribute> inPlace;
  for (const InPlaceGradient &gradient : getInPlaceGradients(op))
    inPlace.insert(gradient.parameter);
  for (auto [value, parameter] :
       llvm::zip(op.getValues(),
                 op.getParameters().getAsRange<FlatSymbolRefAttr>())) {
    if (inPlace.contains(parameter))
      continue;
    int64_t source = slots.lookup(value);
    if (source < 0)
      return op.emitOpError("the value of ") << parameter << " has no slot";
    out.members.emplace_back(
        source, slots.lookup(places.getMember(op, parameter),
                             cast<RankedTensorType>(value.getType())));
  }
  out.zero = findGaps(op, places);
  out.free = getFreed(op);
  return setBucket(out.bucket, op.getBucketAttr(), op, buckets);
}

LogicalResult PlanOps::fill(plan::AccumulateT &out, AccumulateOp op) {
  StateOp sum = places.getAccumulator(op);
  if (!sum)
    return op.emitOpError("expected a bucket with a state 'grad', got ")
           << op.getTargetAttr();
  if (failed(setBucket(out.bucket, sum.getBucketAttr(), op, buckets)) ||
      failed(setPlace(out.in, "in", op.getValue(), op)))
    return failure();
  out.out = toBuf(*sum.getBuffer());
  out.elements = sum.getTensorType().getNumElements();
  out.mode = findByName(stringifyAccumulate(op.getMode()),
                        plan::EnumValuesAccumulateMode(),
                        plan::EnumNamesAccumulateMode());
  if (!op.getLate())
    return success();
  return setStream(out.stream, op.getStream(), op);
}

LogicalResult PlanOps::fill(plan::AddT &out, AddOp op) {
  out.elements = op.getResult().getType().getNumElements();
  return success(succeeded(setPlace(out.sum, "sum", op.getSum(), op)) &&
                 succeeded(setPlace(out.in, "in", op.getValue(), op)) &&
                 succeeded(setPlace(out.out, "out", op.getResult(), op)));
}

LogicalResult PlanOps::fill(plan::ClipGradientsT &out, ClipGradientsOp op) {
  out.maxNorm = op.getMaxNorm().convertToDouble();
  out.gradScale = op.getScale().convertToDouble();
  return success();
}

LogicalResult PlanOps::fill(plan::ShardUpdateT &out, ShardUpdateOp op) {
  out.gradScale = op.getScale().convertToDouble();
  return setBucket(out.bucket, op.getTargetAttr(), op, buckets);
}

LogicalResult PlanOps::fill(plan::AllGatherT &out, AllGatherOp op) {
  out.axis = toAxis(op.getAxes());
  return success(
      succeeded(setBucket(out.bucket, op.getSourceAttr(), op, buckets)) &&
      succeeded(setStream(out.stream, op.getStream(), op)) &&
      succeeded(setPlace(out.in, "in", op.getInput(), op)) &&
      succeeded(setPlace(out.out, "out", op.getResult(), op)));
}

LogicalResult PlanOps::fill(plan::ReduceScatterT &out, ReduceScatterOp op) {
  out.axis = toAxis(op.getAxes());
  if (failed(setBucket(out.bucket, op.getSourceAttr(), op, buckets)) ||
      failed(setStream(out.stream, op.getStream(), op)) ||
      failed(setPlace(out.in, "in", op.getInput(), op)) ||
      failed(setPlace(out.out, "out", op.getResult(), op)))
    return failure();
  if (!op.getScratch())
    return op.emitOpError(
        "expected a scratch buffer; run --fcdp-plan-memory first");
  auto input = cast<RankedTensorType>(op.getInput().getType());
  out.scratch = std::make_unique<plan::Buf>(
      toBuf(slice(*op.getScratch(), 0, byteSize(input))));
  return setTypes(out, op.getInput(), op.getResult(), op);
}

LogicalResult PlanOps::fill(plan::CacheCopyT &out, CacheStoreOp op) {
  StateOp cache = places.lookup(op.getTargetAttr().getAttr());
  out.out = toBuf(*cache.getBuffer());
  return success(
      succeeded(setBucket(out.bucket, cache.getBucketAttr(), op, buckets)) &&
      succeeded(setStream(out.stream, op.getStream(), op)) &&
      succeeded(setPlace(out.in, "in", op.getValue(), op)));
}

LogicalResult PlanOps::fill(plan::CacheCopyT &out, CacheLoadOp op) {
  StateOp cache = places.lookup(op.getSourceAttr().getAttr());
  out.in = toBuf(*cache.getBuffer());
  return success(
      succeeded(setBucket(out.bucket, cache.getBucketAttr(), op, buckets)) &&
      succeeded(setStream(out.stream, op.getStream(), op)) &&
      succeeded(setPlace(out.out, "out", op.getResult(), op)));
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

LogicalResult PlanOps::fill(plan::EventT &out, RecordOp op) {
  if (!op.getEvent())
    return op.emitOpError("expected an event; run --fcdp-plan-memory first");
  out.event = *op.getEvent();
  return setStream(out.stream, op.getStream(), op);
}

LogicalResult PlanOps::fill(plan::EventT &out, WaitOp op) {
  std::optional<int64_t> event = findEvent(op.getToken());
  if (!event)
    return op.emitOpError("expected the token of a record with an event");
  out.event = *event;
  return setStream(out.stream, op.getStream(), op);
}
