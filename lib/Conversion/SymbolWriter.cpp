// SPDX-License-Identifier: Apache-2.0

#include "SymbolWriter.h"

#include "Writing.h"

using namespace mlir;
using namespace fcdp;

SymbolWriter::SymbolWriter(ModuleOp module, const Places &places,
                           llvm::json::OStream &json)
    : module(module), places(places), json(json) {
  int64_t index = 0;
  for (auto bucket : module.getOps<BucketOp>()) {
    for (MemberAttr member : bucket.getMembers().getAsRange<MemberAttr>())
      memberships[member.getParameter().getAttr()] = {index,
                                                      member.getOffset()};
    ++index;
  }
  module.walk([&](ReduceScatterOp reduce) {
    // The first reduction is of the packed gradients.
    reduceTypes.try_emplace(
        reduce.getSourceAttr().getAttr(),
        cast<RankedTensorType>(reduce.getInput().getType()).getElementType());
  });
}

void SymbolWriter::writeNumberOf(StringRef key, FloatAttr number) {
  json.attributeBegin(key);
  writeNumber(json, number.getValueAsDouble());
  json.attributeEnd();
}

/// The one optimizer of the module's updates.
static FailureOr<Attribute> findOptimizer(ModuleOp module) {
  ShardUpdateOp first;
  WalkResult result = module.walk([&](ShardUpdateOp update) {
    if (!first)
      first = update;
    if (update.getOptimizer() == first.getOptimizer())
      return WalkResult::advance();
    InFlightDiagnostic diag =
        update.emitOpError("expected the same optimizer in all updates");
    diag.attachNote(first.getLoc()) << "the first is here";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  if (!first)
    return module.emitError("nothing is trained: expected at least one "
                            "fcdp.shard_update");
  return first.getOptimizer();
}

LogicalResult SymbolWriter::writeOptimizer() {
  FailureOr<Attribute> optimizer = findOptimizer(module);
  if (failed(optimizer))
    return failure();
  json.attributeObject("optimizer", [&] {
    if (auto adamw = dyn_cast<AdamWAttr>(*optimizer)) {
      json.attribute("name", "adamw");
      writeNumberOf("lr", adamw.getLr());
      writeNumberOf("beta1", adamw.getBeta1());
      writeNumberOf("beta2", adamw.getBeta2());
      writeNumberOf("eps", adamw.getEps());
      writeNumberOf("weight_decay", adamw.getWeightDecay());
      return;
    }
    auto sgd = cast<SGDAttr>(*optimizer);
    json.attribute("name", "sgd");
    writeNumberOf("lr", sgd.getLr());
    writeNumberOf("momentum", sgd.getMomentum());
    writeNumberOf("dampening", sgd.getDampening());
    writeNumberOf("weight_decay", sgd.getWeightDecay());
    json.attribute("nesterov", sgd.getNesterov());
  });
  return success();
}

LogicalResult SymbolWriter::writeParameter(ParameterOp parameter) {
  auto membership = memberships.find(parameter.getSymNameAttr());
  if (membership == memberships.end())
    return parameter.emitOpError("expected to be a member of a bucket");
  json.attribute("name", cast<StringAttr>(parameter.getNames()[0]).getValue());
  json.attributeArray("names", [&] {
    for (StringAttr name : parameter.getNames().getAsRange<StringAttr>())
      json.value(name.getValue());
  });
  writeShape(json, parameter.getTensorType());
  if (failed(writeDType(json, "dtype",
                        parameter.getTensorType().getElementType(), parameter)))
    return failure();
  json.attribute("trainable", parameter.getTrainable());
  json.attribute("bucket", membership->second.bucket);
  json.attribute("offset_elements", membership->second.offset);
  return success();
}

/// Writes `"key": [{...}, ...]`, one object per operation.
template <typename OpTy, typename WriteTy>
static LogicalResult writeEach(ModuleOp module, llvm::json::OStream &json,
                               StringRef key, WriteTy write) {
  LogicalResult result = success();
  json.attributeArray(key, [&] {
    for (auto op : module.getOps<OpTy>())
      json.object([&] {
        if (failed(write(op)))
          result = failure();
      });
  });
  return result;
}

LogicalResult SymbolWriter::writeParameters() {
  return writeEach<ParameterOp>(
      module, json, "parameters",
      [&](ParameterOp parameter) { return writeParameter(parameter); });
}

LogicalResult SymbolWriter::writeStates(BucketOp bucket) {
  LogicalResult result = success();
  auto writeState = [&](StateOp state) {
    writeBufferKeys(json, *state.getBuffer());
    if (failed(writeDType(json, "dtype", state.getTensorType().getElementType(),
                          state)))
      result = failure();
  };
  json.attributeObject("states", [&] {
    for (unsigned i = 0; i <= getMaxEnumValForStateRole(); ++i) {
      auto role = static_cast<StateRole>(i);
      if (role == StateRole::prefetched)
        continue; // a place for some of the time, which gathers name
      if (StateOp state = places.lookup(bucket.getSymNameAttr(), role))
        json.attributeObject(
            role == StateRole::cache ? "host" : stringifyStateRole(role),
            [&] { writeState(state); });
    }
  });
  return result;
}

LogicalResult SymbolWriter::writeBucket(BucketOp bucket) {
  RankedTensorType shard =
      getStateType(bucket, StateRole::shard, getMesh(module));
  json.attribute("name", bucket.getSymName());
  json.attribute("unit", bucket.getUnit());
  json.attribute("trainable", bucket.getTrainable());
  json.attribute("elements", static_cast<int64_t>(bucket.getElements()));
  json.attribute("sharding", stringifySharding(bucket.getSharding()));
  json.attribute("shard_elements", shard.getNumElements());
  if (failed(writeDType(json, "storage", bucket.getStorage(), bucket)) ||
      failed(writeDType(json, "wire", bucket.getWire(), bucket)))
    return failure();
  Type reduce = reduceTypes.lookup(bucket.getSymNameAttr());
  if (!reduce)
    json.attribute("reduce", nullptr);
  else if (failed(writeDType(json, "reduce", reduce, bucket)))
    return failure();
  return writeStates(bucket);
}

LogicalResult SymbolWriter::writeBuckets() {
  return writeEach<BucketOp>(module, json, "buckets", [&](BucketOp bucket) {
    return writeBucket(bucket);
  });
}

LogicalResult SymbolWriter::writeBuffers(const ConstantTable &constants) {
  return writeEach<BufferOp>(module, json, "buffers", [&](BufferOp buffer) {
    auto type = cast<RankedTensorType>(buffer.getType());
    json.attribute("name", buffer.getName());
    writeShape(json, type);
    if (failed(writeDType(json, "dtype", type.getElementType(), buffer)))
      return failure();
    json.attribute("persistent", buffer.getPersistent());
    json.attribute("mutable", buffer.getMutableBuffer());
    json.attribute("constant_offset", constants.lookup(buffer));
    return success();
  });
}

LogicalResult SymbolWriter::writeInputs() {
  return writeEach<InputOp>(module, json, "inputs", [&](InputOp input) {
    auto type = cast<RankedTensorType>(input.getType());
    json.attribute("name", input.getName());
    writeShape(json, type);
    if (failed(writeDType(json, "dtype", type.getElementType(), input)))
      return failure();
    auto optional = [](std::optional<uint64_t> value) -> llvm::json::Value {
      if (!value)
        return nullptr;
      return static_cast<int64_t>(*value);
    };
    json.attribute("index_limit", optional(input.getLimit()));
    json.attribute("ignore_index", optional(input.getIgnore()));
    return success();
  });
}
