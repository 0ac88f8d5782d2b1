// SPDX-License-Identifier: Apache-2.0

#include "PlanParts.h"

#include "PlanValues.h"
#include "core/MessageSpec.h"
#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/OpList.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/InPlaceGradients.h"

using namespace mlir;
using namespace fcdp;

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

static plan::Axis toAxis(ArrayAttr axes) {
  if (isOver(axes, Axis::node) && isOver(axes, Axis::local))
    return plan::Axis::world;
  return findByName<plan::Axis>(
      stringifyAxis(cast<AxisAttr>(axes[0]).getValue()), plan::EnumNamesAxis());
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
  auto bucket = places.lookup<BucketOp>(op.getBucketAttr().getAttr());
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

/// The bytes of an element of a gradient.
static constexpr int64_t kGradientWidth = 4;

namespace {
/// Describes one operation. Its first error is reported, and later ones have no
/// effect. `optimizer` is the plan's.
class OpWriter {
public:
  OpWriter(const Places &places, const SlotTable &slots, Attribute optimizer,
           Operation *op, plan::OpT &out)
      : places(places), slots(slots), optimizer(optimizer), op(op), out(out) {}

  LogicalResult write() {
    if (!op->hasTrait<OrdersStreams>())
      setLocation(out, op->getLoc());
    auto addTyped = [&](auto typed) { add(typed); };
    if (auto call = dyn_cast<aten::CallOp>(op))
      add(call);
    else if (!FcdpOps::visit<IsInPlan>(op, addTyped))
      error() << "the runtime has no call for this operation";
    return failure(hasFailed);
  }

private:
  void add(aten::CallOp call) {
    auto &table = make<plan::AtenCallT>(plan::OpBody::aten_call);
    auto [callee, overload] = call.getCallee().rsplit('.');
    auto [space, name] = callee.split('.');
    table.callee = (space + "::" + name).str();
    if (slots.getOut(call) >= 0) {
      table.overload = aten::lookupOut(call.getCallee()).str();
      table.functional = overload.str();
      table.alias = plan::Alias::unknown;
    } else {
      table.overload = overload == "default" ? "" : overload.str();
      table.alias = toAlias(aten::lookupOp(call.getCallee()).aliasing);
    }
    // Plans for a GPU mark the calls that may be in a graph.
    table.replayable =
        getTarget(call->getParentOfType<ModuleOp>()) == Target::cuda &&
        call.isReplayable();
    if (table.replayable)
      for (auto [position, argument] :
           llvm::enumerate(call.getArgNames().getAsRange<StringAttr>()))
        if (call.leavesUnread(argument.getValue()))
          table.unread.push_back(uint32_t(position));
    table.free = slots.getFreed(op);
    ArrayRef<int64_t> undefined =
        call.getUndefined().value_or(ArrayRef<int64_t>());
    size_t count = call.getNumResults() + undefined.size();
    auto defined = call.getResults().begin();
    for (size_t position = 0; position < count; ++position)
      table.results.push_back(llvm::is_contained(undefined, position)
                                  ? -1
                                  : slots.lookup(*defined++));
    require(fillArguments(table, call, slots));
  }
  void add(WriteBufferOp write) {
    auto &table = make<plan::WriteBufferT>(plan::OpBody::write_buffer);
    table.buffer = places.getPosition(write.getTargetAttr().getAttr());
    table.slot = getSlot(write.getValue());
    table.free = slots.getFreed(op);
  }
  void add(LossOp loss) {
    auto &table = make<plan::LossT>(plan::OpBody::loss);
    table.slot = getSlot(loss.getValue());
    table.free = slots.getFreed(op);
  }
  void add(CastShardOp cast) {
    auto &table = make<plan::CastT>(plan::OpBody::cast);
    table.in = getPlace("in", cast.getInput());
    table.out = getPlace("out", cast.getResult());
    setTypes(table, cast.getInput(), cast.getResult());
  }
  void add(PackOp pack) {
    auto &table = make<plan::PackBucketT>(plan::OpBody::pack);
    llvm::DenseSet<Attribute> inPlace;
    for (const InPlaceGradient &gradient : getInPlaceGradients(pack))
      inPlace.insert(gradient.parameter);
    for (auto [value, parameter] :
         llvm::zip(pack.getValues(),
                   pack.getParameters().getAsRange<FlatSymbolRefAttr>())) {
      if (inPlace.contains(parameter))
        continue;
      int64_t source = slots.lookup(value);
      if (source < 0)
        error() << "the value of " << parameter << " has no slot";
      table.members.emplace_back(source,
                                 slots.lookup(places.getMember(pack, parameter),
                                              pack.getPackedType(value)));
    }
    table.zero = findGaps(pack, places);
    if (getLossWeight(op->getParentOfType<ModuleOp>()))
      table.whole =
          std::make_unique<plan::Buf>(toBuf(places.lookup(pack.getResult())));
    table.free = slots.getFreed(op);
    table.bucket = getBucket(pack.getBucketAttr());
  }
  void add(AccumulateOp accumulate) {
    auto &table = make<plan::AccumulateT>(plan::OpBody::accumulate);
    StateOp sum = places.getAccumulator(accumulate);
    if (!sum) {
      error() << "expected a bucket with a state 'grad', got "
              << accumulate.getTargetAttr();
      return;
    }
    table.bucket = getBucket(sum.getBucketAttr());
    table.in = getPlace("in", accumulate.getValue());
    table.out = toBuf(*sum.getBuffer());
    table.elements = sum.getTensorType().getNumElements();
    table.mode = findByName<plan::AccumulateMode>(
        stringifyAccumulate(accumulate.getMode()),
        plan::EnumNamesAccumulateMode());
    if (accumulate.getLate())
      table.stream = getStream(accumulate.getStream());
  }
  void add(AddOp add) {
    auto &table = make<plan::AddT>(plan::OpBody::add);
    table.sum = getPlace("sum", add.getSum());
    table.in = getPlace("in", add.getValue());
    table.out = getPlace("out", add.getResult());
    table.elements = add.getResult().getType().getNumElements();
  }
  void add(UnscaleGradientsOp) {
    make<plan::UnscaleGradientsT>(plan::OpBody::unscale_gradients);
  }
  void add(ClipGradientsOp clip) {
    auto &table = make<plan::ClipGradientsT>(plan::OpBody::clip_gradients);
    table.maxNorm = clip.getMaxNorm().convertToDouble();
    table.gradScale = clip.getScale().convertToDouble();
  }
  void add(ShardUpdateOp update) {
    auto &table = make<plan::ShardUpdateT>(plan::OpBody::shard_update);
    table.bucket = getBucket(update.getTargetAttr());
    table.gradScale = update.getScale().convertToDouble();
    if (update.getOptimizer() != optimizer)
      setOptimizer(table.optimizer, update.getOptimizer());
    table.begin = update.getBegin().value_or(0);
    table.end = update.getEnd().value_or(0);
    for (Value state : update.getStates())
      table.states.push_back(getPlace("states", state));
  }
  void add(StoreGradientOp store) {
    auto &table = make<plan::StoreGradientT>(plan::OpBody::store_gradient);
    table.bucket = getBucket(store.getSourceAttr());
    table.stream = getStream(store.getStream());
    table.grad = getPieceOf(store, StateRole::grad);
    table.gradOut = getWindow(store, StateRole::grad);
    if (!store.getShard())
      return;
    table.shard =
        std::make_unique<plan::Buf>(getPieceOf(store, StateRole::shard));
    table.shardOut =
        std::make_unique<plan::Buf>(getWindow(store, StateRole::shard));
  }
  void add(HostUpdateOp update) {
    auto &table = make<plan::HostUpdateT>(plan::OpBody::host_update);
    auto store = update.getGradient().getDefiningOp<StoreGradientOp>();
    table.stream = getStream(update.getStream());
    table.grad = getWindow(store, StateRole::grad);
    table.shard = getWindow(store, StateRole::shard);
    table.update = std::make_unique<plan::ShardUpdateT>();
    table.bucket = table.update->bucket = getBucket(update.getTargetAttr());
    table.update->gradScale = update.getScale().convertToDouble();
    if (update.getOptimizer() != optimizer)
      setOptimizer(table.update->optimizer, update.getOptimizer());
    table.update->begin = update.getBegin();
    table.update->end = update.getEnd();
  }
  void add(LoadShardOp load) {
    auto &table = make<plan::CacheCopyT>(plan::OpBody::load_shard);
    auto update = load.getUpdated().getDefiningOp<HostUpdateOp>();
    auto store = update.getGradient().getDefiningOp<StoreGradientOp>();
    table.bucket = getBucket(load.getTargetAttr());
    table.stream = getStream(load.getStream());
    table.in = getWindow(store, StateRole::shard);
    table.out = getPieceOf(store, StateRole::shard);
  }
  void add(StateStoreOp store) {
    auto &table = make<plan::CacheCopyT>(plan::OpBody::state_store);
    StateOp state = places.lookup<StateOp>(store.getTargetAttr().getAttr());
    table.bucket = getBucket(state.getBucketAttr());
    table.stream = getStream(store.getStream());
    table.in = getPlace("in", store.getValue());
    table.out = getPiece(state, store.getBegin(), store.getValue());
  }
  void add(StateLoadOp load) {
    auto &table = make<plan::CacheCopyT>(plan::OpBody::state_load);
    StateOp state = places.lookup<StateOp>(load.getSourceAttr().getAttr());
    table.bucket = getBucket(state.getBucketAttr());
    table.stream = getStream(load.getStream());
    table.in = getPiece(state, load.getBegin(), load.getResult());
    table.out = getPlace("out", load.getResult());
  }
  void add(OuterDifferenceOp difference) {
    auto &table = make<plan::OuterDifferenceT>(plan::OpBody::outer_difference);
    table.bucket = getBucket(difference.getSourceAttr());
    table.out = getPlace("out", difference.getResult());
    setType(table, difference.getResult());
  }
  void add(OuterUpdateOp update) {
    auto &table = make<plan::OuterUpdateT>(plan::OpBody::outer_update);
    table.bucket = getBucket(update.getTargetAttr());
    table.in = getPlace("in", update.getValue());
    setType(table, update.getValue());
    table.scale = update.getScale().convertToDouble();
  }
  void add(AllGatherOp gather) {
    auto &table = make<plan::AllGatherT>(plan::OpBody::all_gather);
    table.bucket = getBucket(gather.getSourceAttr());
    table.axis = toAxis(gather.getAxes());
    table.stream = getStream(gather.getStream());
    table.in = getPlace("in", gather.getInput());
    table.out = getPlace("out", gather.getResult());
    if (!gather.isCoded())
      return;
    table.wire = toWire(gather.getWire());
    if (std::optional<BufferAttr> scratch = getScratch(gather))
      table.messages = std::make_unique<plan::Buf>(
          toBuf(slice(*scratch, 0, *gather.getScratchBytes())));
  }
  void add(ReduceScatterOp reduce) {
    auto &table = make<plan::ReduceScatterT>(plan::OpBody::reduce_scatter);
    table.bucket = getBucket(reduce.getSourceAttr());
    table.axis = toAxis(reduce.getAxes());
    table.stream = getStream(reduce.getStream());
    table.in = getPlace("in", reduce.getInput());
    table.out = getPlace("out", reduce.getResult());
    std::optional<BufferAttr> scratch = getScratch(reduce);
    if (!scratch)
      return;
    auto input = cast<RankedTensorType>(reduce.getInput().getType());
    table.scratch =
        std::make_unique<plan::Buf>(toBuf(slice(*scratch, 0, byteSize(input))));
    setTypes(table, reduce.getInput(), reduce.getResult());
    if (!reduce.isCoded())
      return;
    table.wire = toWire(reduce.getWire());
    int64_t begin = llvm::alignTo(byteSize(input), kMessageAlignment);
    table.messages = std::make_unique<plan::Buf>(
        toBuf(slice(*scratch, begin, *reduce.getScratchBytes() - begin)));
  }
  void add(CacheStoreOp store) {
    auto &table = make<plan::CacheCopyT>(plan::OpBody::cache_store);
    StateOp cache = places.lookup<StateOp>(store.getTargetAttr().getAttr());
    table.bucket = getBucket(cache.getBucketAttr());
    table.stream = getStream(store.getStream());
    table.in = getPlace("in", store.getValue());
    table.out = toBuf(*cache.getBuffer());
  }
  void add(CacheLoadOp load) {
    auto &table = make<plan::CacheCopyT>(plan::OpBody::cache_load);
    StateOp cache = places.lookup<StateOp>(load.getSourceAttr().getAttr());
    table.bucket = getBucket(cache.getBucketAttr());
    table.stream = getStream(load.getStream());
    table.in = toBuf(*cache.getBuffer());
    table.out = getPlace("out", load.getResult());
  }
  void add(StoreValueOp store) {
    auto &table = make<plan::StoreValueT>(plan::OpBody::store_value);
    table.stream = getStream(store.getStream());
    table.slot = getSlot(store.getValue());
    table.out = getHostPlace(store);
  }
  void add(DropValueOp drop) {
    auto &table = make<plan::DropValueT>(plan::OpBody::drop_value);
    table.slot = getSlot(drop.getValue());
    table.free = slots.getFreed(op);
  }
  void add(LoadValueOp load) {
    auto &table = make<plan::LoadValueT>(plan::OpBody::load_value);
    table.stream = getStream(load.getStream());
    if (auto store = load.getStored().getDefiningOp<StoreValueOp>())
      table.in = getHostPlace(store);
    table.slot = getSlot(load.getValue());
  }
  void add(RecordOp record) {
    auto &table = make<plan::EventT>(plan::OpBody::record);
    if (!record.getEvent())
      error() << "expected an event; run --fcdp-plan-memory first";
    table.event = record.getEvent().value_or(0);
    table.stream = getStream(record.getStream());
  }
  void add(WaitOp wait) {
    auto &table = make<plan::EventT>(plan::OpBody::wait);
    std::optional<int64_t> event = findEvent(wait.getToken());
    if (!event)
      error() << "expected the token of a record with an event";
    table.event = event.value_or(0);
    table.stream = getStream(wait.getStream());
  }

  /// Makes the table of the operation.
  template <typename Table>
  Table &make(plan::OpBody kind) {
    auto *table = new Table;
    out.body.type = kind;
    out.body.value = table; // owned
    return *table;
  }

  static plan::Wire toWire(Wire wire) {
    return findByName<plan::Wire>(stringifyWire(wire), plan::EnumNamesWire());
  }
  /// Reports an error, if it is the first.
  InFlightDiagnostic error() {
    InFlightDiagnostic diag = op->emitOpError();
    if (hasFailed)
      diag.abandon();
    hasFailed = true;
    return diag;
  }
  /// Returns the scratch memory of a collective, or none after an error.
  std::optional<BufferAttr> getScratch(BufferedOpInterface collective) {
    if (!collective.getScratchAttr()) {
      error() << "expected a scratch buffer; run --fcdp-plan-memory first";
      return std::nullopt;
    }
    return collective.getScratchAttr();
  }
  /// Records an error that was reported elsewhere.
  void require(LogicalResult result) { hasFailed |= failed(result); }
  uint32_t getSlot(Value value) {
    int64_t slot = slots.lookup(value);
    if (slot < 0)
      error() << "expected a tensor, got a value of type " << value.getType()
              << " that has no slot";
    return slot;
  }
  uint32_t getBucket(FlatSymbolRefAttr name) {
    if (!places.lookup<BucketOp>(name.getAttr()))
      error() << "expected a bucket, got " << name;
    return places.getPosition(name.getAttr());
  }
  plan::Stream getStream(std::optional<Stream> stream) {
    if (!stream)
      error() << "expected a stream; run --fcdp-schedule first";
    return findByName<plan::Stream>(
        stringifyStream(stream.value_or(Stream::compute)),
        plan::EnumNamesStream());
  }
  plan::Buf getPlace(StringRef field, Value value) {
    if (BufferAttr place = places.lookup(value))
      return toBuf(place);
    error() << "expected '" << field << "' to have a place in an arena";
    return {};
  }
  plan::Buf getHostPlace(StoreValueOp store) {
    if (BufferAttr place = store.getPlaceAttr())
      return toBuf(place);
    error() << "expected a place in host memory; run --fcdp-plan-memory first";
    return {};
  }
  /// Returns the part of host memory that has the gradient, or the shard.
  plan::Buf getWindow(StoreGradientOp store, StateRole role) {
    BufferAttr place = store.getPlaceAttr();
    if (!place) {
      error() << "expected a place in host memory; run --fcdp-plan-memory "
                 "first";
      return {};
    }
    RankedTensorType shard = store.getStored().getType().getTensor();
    if (role == StateRole::shard)
      return toBuf(slice(place, store.getShardOffset(), byteSize(shard)));
    return toBuf(slice(place, 0, shard.getNumElements() * kGradientWidth));
  }
  /// Returns the place of the piece of the gradient, or of the shard.
  plan::Buf getPieceOf(StoreGradientOp store, StateRole role) {
    StateOp state = places.lookup(store.getSourceAttr().getAttr(), role);
    if (!state) {
      error() << "expected a state '" << stringifyStateRole(role) << "'";
      return {};
    }
    int64_t width = elementBytes(state.getTensorType().getElementType());
    auto begin = static_cast<int64_t>(store.getBegin());
    auto end = static_cast<int64_t>(store.getEnd());
    return toBuf(
        slice(*state.getBuffer(), begin * width, (end - begin) * width));
  }
  /// Returns the place of a piece of a state that begins at element `begin`.
  plan::Buf getPiece(StateOp state, uint64_t begin, Value piece) {
    auto type = cast<RankedTensorType>(piece.getType());
    return toBuf(
        slice(*state.getBuffer(),
              static_cast<int64_t>(begin) * elementBytes(type.getElementType()),
              byteSize(type)));
  }
  /// Sets the types and the number of elements of a conversion.
  template <typename Table>
  void setTypes(Table &table, Value in, Value out) {
    auto inType = cast<RankedTensorType>(in.getType());
    auto outType = cast<RankedTensorType>(out.getType());
    table.elements = inType.getNumElements();
    require(success(
        succeeded(setDType(table.inType, inType.getElementType(), op)) &&
        succeeded(setDType(table.outType, outType.getElementType(), op))));
  }

  /// Sets the type and the number of elements of a difference.
  template <typename Table>
  void setType(Table &table, Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    table.elements = type.getNumElements();
    require(setDType(table.type, type.getElementType(), op));
  }

  const Places &places;
  const SlotTable &slots;
  Attribute optimizer;
  Operation *op;
  plan::OpT &out;
  bool hasFailed = false;
};
} // namespace

void fcdp::fillSynchronization(plan::PlanT &plan, ModuleOp module) {
  OuterAttr outer = getOuter(module);
  if (!outer)
    return;
  plan.outer = std::make_unique<plan::OuterT>();
  plan.outer->every = outer.getEvery();
  plan.outer->lr = outer.getLr().getValueAsDouble();
  plan.outer->momentum = outer.getMomentum().getValueAsDouble();
  plan.outer->nesterov = outer.getNesterov();
  plan.outer->fragments = outer.getFragments();
  plan.outer->overlap = outer.getOverlap();
}

LogicalResult fcdp::fillOps(plan::PlanT &plan, const Places &places,
                            const SlotTable &slots,
                            ArrayRef<Operation *> calls) {
  if (calls.empty())
    return success();
  UpdateOpInterface first =
      findFirstUpdate(calls.front()->getParentOfType<ModuleOp>());
  Attribute optimizer = first ? first.getOptimizer() : Attribute();
  // Report the errors of every operation.
  LogicalResult result = success();
  for (Operation *call : calls) {
    OpWriter writer(places, slots, optimizer, call, append(plan.ops));
    if (failed(writer.write()))
      result = failure();
    if (auto record = dyn_cast<RecordOp>(call); record && record.getEvent())
      plan.numEvents =
          std::max<uint32_t>(plan.numEvents, *record.getEvent() + 1);
  }
  return result;
}
