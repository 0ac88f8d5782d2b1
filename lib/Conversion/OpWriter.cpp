// SPDX-License-Identifier: Apache-2.0

#include "OpWriter.h"

#include "Writing.h"
#include "dialects/Aten/OpTable.h"
#include "fcdp/Analysis/Borders.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fcdp;

OpWriter::OpWriter(ModuleOp module, const Places &places,
                   const SlotTable &slots, llvm::json::OStream &json)
    : places(places), slots(slots), json(json) {
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  isForGpu = target && target.getValue() == "cuda";
  int64_t index = 0;
  for (auto bucket : module.getOps<BucketOp>())
    buckets[bucket.getSymNameAttr()] = index++;
  index = 0;
  for (auto buffer : module.getOps<BufferOp>())
    buffers[buffer.getSymNameAttr()] = index++;
}

LogicalResult OpWriter::write(const RuntimeCall &call) {
  json.objectBegin();
  json.attribute("kind", call.kind);
  if (!isa<RecordOp, WaitOp>(call.op))
    writeLocation(json, call.op->getLoc());
  LogicalResult result =
      llvm::TypeSwitch<Operation *, LogicalResult>(call.op)
          .Case<aten::CallOp, WriteBufferOp, LossOp, CastShardOp, PackOp,
                AccumulateOp, AddOp, ClipGradientsOp, ShardUpdateOp,
                AllGatherOp, ReduceScatterOp, CacheStoreOp, CacheLoadOp,
                RecordOp, WaitOp>([&](auto op) { return writeBody(op); })
          .DefaultUnreachable("the call was collected");
  json.objectEnd();
  return result;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

LogicalResult OpWriter::writeSlot(StringRef key, Value value, Operation *op) {
  int64_t slot = slots.lookup(value);
  if (slot < 0)
    return op->emitOpError("expected a tensor, got a value of type ")
           << value.getType() << " that has no slot";
  json.attribute(key, slot);
  return success();
}

LogicalResult OpWriter::writePlace(StringRef key, Value value, Operation *op) {
  BufferAttr place = places.lookup(value);
  if (!place)
    return op->emitOpError("expected '")
           << key << "' to have a place in an arena";
  writeBuffer(json, key, place);
  return success();
}

LogicalResult OpWriter::writeBucket(FlatSymbolRefAttr bucket, Operation *op) {
  auto it = buckets.find(bucket.getAttr());
  if (it == buckets.end())
    return op->emitOpError("expected a bucket, got ") << bucket;
  json.attribute("bucket", it->second);
  return success();
}

void OpWriter::writeAxis(ArrayAttr axes) {
  bool isWorld = isOver(axes, Axis::node) && isOver(axes, Axis::local);
  json.attribute("axis",
                 isWorld ? "world"
                         : stringifyAxis(cast<AxisAttr>(axes[0]).getValue()));
}

LogicalResult OpWriter::writeStream(std::optional<Stream> stream,
                                    Operation *op) {
  if (!stream)
    return op->emitOpError("expected a stream; run --fcdp-schedule first");
  json.attribute("stream", stringifyStream(*stream));
  return success();
}

LogicalResult OpWriter::writeTypes(Value in, Value out, Operation *op) {
  auto inType = cast<RankedTensorType>(in.getType());
  auto outType = cast<RankedTensorType>(out.getType());
  if (failed(writeDType(json, "in_type", inType.getElementType(), op)) ||
      failed(writeDType(json, "out_type", outType.getElementType(), op)))
    return failure();
  json.attribute("elements", inType.getNumElements());
  return success();
}

void OpWriter::writeFreed(Operation *op) {
  json.attributeArray("free", [&] {
    for (int64_t slot : slots.getFreed(op))
      json.value(slot);
  });
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static StringRef stringify(aten::Aliasing aliasing) {
  switch (aliasing) {
  case aten::Aliasing::Fresh:
    return "fresh";
  case aten::Aliasing::View:
    return "view";
  case aten::Aliasing::Unknown:
    return "unknown";
  }
  llvm_unreachable("unknown aliasing");
}

LogicalResult OpWriter::writeBody(aten::CallOp op) {
  auto [callee, overload] = op.getCallee().rsplit('.');
  auto [space, name] = callee.split('.');
  json.attribute("callee", (space + "::" + name).str());
  if (overload == "default")
    overload = "";
  if (slots.getOut(op) >= 0) {
    json.attribute("overload", aten::lookupOut(op.getCallee()));
    json.attribute("functional", overload);
    json.attribute("alias", stringify(aten::Aliasing::Unknown));
  } else {
    json.attribute("overload", overload);
    json.attribute("alias", stringify(aten::lookupOp(op.getCallee()).aliasing));
  }
  if (isForGpu && op.isReplayable())
    json.attribute("replayable", true);
  if (failed(writeArguments(op, slots, json)))
    return failure();
  json.attributeArray("results", [&] {
    ArrayRef<int64_t> undefined =
        op.getUndefined().value_or(ArrayRef<int64_t>());
    int64_t position = 0;
    auto skipUndefined = [&] {
      for (; !undefined.empty() && undefined.front() == position; ++position) {
        undefined = undefined.drop_front();
        json.value(-1);
      }
    };
    for (Value result : op.getResults()) {
      skipUndefined();
      json.value(slots.lookup(result));
      ++position;
    }
    skipUndefined();
  });
  writeFreed(op);
  return success();
}

LogicalResult OpWriter::writeBody(WriteBufferOp op) {
  if (failed(writeSlot("slot", op.getValue(), op)))
    return failure();
  json.attribute("buffer", buffers.lookup(op.getTargetAttr().getAttr()));
  writeFreed(op);
  return success();
}

LogicalResult OpWriter::writeBody(LossOp op) {
  if (failed(writeSlot("slot", op.getValue(), op)))
    return failure();
  writeFreed(op);
  return success();
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

LogicalResult OpWriter::writeBody(CastShardOp op) {
  if (failed(writePlace("in", op.getInput(), op)) ||
      failed(writePlace("out", op.getResult(), op)))
    return failure();
  return writeTypes(op.getInput(), op.getResult(), op);
}

/// What no packed value fills: padding, and members without a gradient.
static SmallVector<BufferAttr> findGaps(PackOp op, const Places &places) {
  llvm::DenseSet<Attribute> given(op.getParameters().begin(),
                                  op.getParameters().end());
  BufferAttr whole = places.lookup(op.getResult());
  SmallVector<BufferAttr> gaps;
  int64_t end = 0;
  auto closeGap = [&](int64_t begin) {
    if (begin > end)
      gaps.push_back(slice(whole, end, begin - end));
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

LogicalResult OpWriter::writeBody(PackOp op) {
  auto parameters = op.getParameters().getAsRange<FlatSymbolRefAttr>();
  LogicalResult result = writeBucket(op.getBucketAttr(), op);
  llvm::DenseSet<Attribute> inPlace;
  for (const InPlaceGradient &gradient : getInPlaceGradients(op))
    inPlace.insert(gradient.parameter);
  json.attributeArray("members", [&] {
    for (auto [value, parameter] : llvm::zip(op.getValues(), parameters)) {
      if (inPlace.contains(parameter))
        continue;
      int64_t source = slots.lookup(value);
      if (source < 0)
        result = op.emitOpError("the value of ") << parameter << " has no slot";
      json.array([&, value = value, parameter = parameter] {
        json.value(source);
        json.value(slots.lookup(places.getMember(op, parameter),
                                cast<RankedTensorType>(value.getType())));
      });
    }
  });
  json.attributeArray("zero", [&] {
    for (BufferAttr gap : findGaps(op, places))
      writeBuffer(json, gap);
  });
  writeFreed(op);
  return result;
}

LogicalResult OpWriter::writeBody(AccumulateOp op) {
  StateOp sum = places.getAccumulator(op);
  if (!sum)
    return op.emitOpError("expected a bucket with a state 'grad', got ")
           << op.getTargetAttr();
  if (failed(writeBucket(sum.getBucketAttr(), op)) ||
      failed(writePlace("in", op.getValue(), op)))
    return failure();
  writeBuffer(json, "out", *sum.getBuffer());
  json.attribute("elements", sum.getTensorType().getNumElements());
  json.attribute("mode", stringifyAccumulate(op.getMode()));
  if (!op.getLate())
    return success();
  return writeStream(op.getStream(), op);
}

LogicalResult OpWriter::writeBody(AddOp op) {
  if (failed(writePlace("sum", op.getSum(), op)) ||
      failed(writePlace("in", op.getValue(), op)) ||
      failed(writePlace("out", op.getResult(), op)))
    return failure();
  json.attribute("elements", op.getResult().getType().getNumElements());
  return success();
}

LogicalResult OpWriter::writeBody(ClipGradientsOp op) {
  json.attributeBegin("max_norm");
  writeNumber(json, op.getMaxNorm().convertToDouble());
  json.attributeEnd();
  json.attributeBegin("grad_scale");
  writeNumber(json, op.getScale().convertToDouble());
  json.attributeEnd();
  return success();
}

LogicalResult OpWriter::writeBody(ShardUpdateOp op) {
  if (failed(writeBucket(op.getTargetAttr(), op)))
    return failure();
  json.attributeBegin("grad_scale");
  writeNumber(json, op.getScale().convertToDouble());
  json.attributeEnd();
  return success();
}

LogicalResult OpWriter::writeBody(AllGatherOp op) {
  if (failed(writeBucket(op.getSourceAttr(), op)))
    return failure();
  writeAxis(op.getAxes());
  return success(succeeded(writeStream(op.getStream(), op)) &&
                 succeeded(writePlace("in", op.getInput(), op)) &&
                 succeeded(writePlace("out", op.getResult(), op)));
}

LogicalResult OpWriter::writeBody(ReduceScatterOp op) {
  if (failed(writeBucket(op.getSourceAttr(), op)))
    return failure();
  writeAxis(op.getAxes());
  if (failed(writeStream(op.getStream(), op)) ||
      failed(writePlace("in", op.getInput(), op)) ||
      failed(writePlace("out", op.getResult(), op)))
    return failure();
  if (!op.getScratch())
    return op.emitOpError(
        "expected a scratch buffer; run --fcdp-plan-memory first");
  auto input = cast<RankedTensorType>(op.getInput().getType());
  writeBuffer(json, "scratch", slice(*op.getScratch(), 0, byteSize(input)));
  return writeTypes(op.getInput(), op.getResult(), op);
}

LogicalResult OpWriter::writeBody(CacheStoreOp op) {
  StateOp cache = places.lookup(op.getTargetAttr().getAttr());
  if (failed(writeBucket(cache.getBucketAttr(), op)) ||
      failed(writeStream(op.getStream(), op)) ||
      failed(writePlace("in", op.getValue(), op)))
    return failure();
  writeBuffer(json, "out", *cache.getBuffer());
  return success();
}

LogicalResult OpWriter::writeBody(CacheLoadOp op) {
  StateOp cache = places.lookup(op.getSourceAttr().getAttr());
  if (failed(writeBucket(cache.getBucketAttr(), op)) ||
      failed(writeStream(op.getStream(), op)))
    return failure();
  writeBuffer(json, "in", *cache.getBuffer());
  return writePlace("out", op.getResult(), op);
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

LogicalResult OpWriter::writeBody(RecordOp op) {
  if (!op.getEvent())
    return op.emitOpError("expected an event; run --fcdp-plan-memory first");
  json.attribute("event", static_cast<int64_t>(*op.getEvent()));
  return writeStream(op.getStream(), op);
}

LogicalResult OpWriter::writeBody(WaitOp op) {
  std::optional<int64_t> event = findEvent(op.getToken());
  if (!event)
    return op.emitOpError("expected the token of a record with an event");
  json.attribute("event", *event);
  return writeStream(op.getStream(), op);
}
