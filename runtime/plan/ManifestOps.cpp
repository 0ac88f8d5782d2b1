// SPDX-License-Identifier: Apache-2.0
//
// Reads the manifest's "ops".
#include "plan/ManifestReader.h"

namespace fcdp {

namespace {

StreamId readStream(const JsonNode &node) {
  std::string stream = node.text();
  for (size_t i = 0; i < kNumStreams; ++i)
    if (stream == name(static_cast<StreamId>(i)))
      return static_cast<StreamId>(i);
  node.expected("'compute', 'inter', 'intra', 'inter_reduce', 'intra_reduce', "
                "'d2h' or 'h2d'");
}

Axis readAxis(const JsonNode &node) {
  std::string axis = node.text();
  if (axis == "node")
    return Axis::Node;
  if (axis == "local")
    return Axis::Local;
  if (axis == "world")
    return Axis::World;
  node.expected("'node', 'local' or 'world'");
}

/// Reads one op, with the indices checked against the manifest's other parts.
class OpReader {
public:
  OpReader(const JsonNode &node, const Manifest &manifest)
      : node(node), manifest(manifest) {}

  ops::AtenCall atenCall() const;
  ops::WriteBuffer writeBuffer() const {
    return {slot("slot"),
            readIndex(node.at("buffer"), manifest.buffers.size(), "buffers"),
            freed()};
  }
  ops::Loss loss() const { return {slot("slot"), freed()}; }
  ops::Cast cast() const {
    return {buf("in"), buf("out"), readDType(node.at("in_type")),
            readDType(node.at("out_type")), elements()};
  }
  ops::Pack pack() const;
  ops::Accumulate accumulate() const;
  ops::Add add() const {
    return {buf("sum"), buf("in"), buf("out"), elements()};
  }
  ops::ClipGradients clipGradients() const {
    return {node.at("max_norm").number(), node.at("grad_scale").number()};
  }
  ops::ShardUpdate shardUpdate() const {
    return {bucket(), node.at("grad_scale").number()};
  }
  ops::AllGather allGather() const {
    return {bucket(), readAxis(node.at("axis")), readStream(node.at("stream")),
            buf("in"), buf("out")};
  }
  ops::ReduceScatter reduceScatter() const;
  ops::CacheCopy cacheCopy() const {
    return {bucket(), readStream(node.at("stream")), buf("in"), buf("out")};
  }
  ops::Event event() const {
    return {static_cast<uint32_t>(
                readIndex(node.at("event"), manifest.numEvents, "events")),
            readStream(node.at("stream"))};
  }

private:
  size_t slotOf(const JsonNode &index) const {
    return readIndex(index, manifest.slots.size(), "slots");
  }
  size_t slot(const char *key) const { return slotOf(node.at(key)); }
  size_t bucket() const {
    return readIndex(node.at("bucket"), manifest.buckets.size(), "buckets");
  }
  std::optional<size_t> optionalBucket() const {
    return node.isNull("bucket") ? std::nullopt : std::optional(bucket());
  }
  Buf buf(const char *key) const { return readBuf(node.at(key)); }
  int64_t elements() const {
    return node.at("elements").integer(0, kGreatestSize);
  }
  /// Slots, where -1 stands for none.
  std::vector<int64_t> optionalSlots(const JsonNode &list) const;
  std::vector<size_t> freed() const;
  Arg argument(const JsonNode &value) const;

  const JsonNode &node;
  const Manifest &manifest;
};

std::vector<int64_t> OpReader::optionalSlots(const JsonNode &list) const {
  std::vector<int64_t> slots;
  list.forEach([&](const JsonNode &index) {
    slots.push_back(
        index.integer(-1) < 0 ? -1 : static_cast<int64_t>(slotOf(index)));
  });
  return slots;
}

std::vector<size_t> OpReader::freed() const {
  std::vector<size_t> slots;
  if (node.isNull("free"))
    return slots;
  node.at("free").forEach([&](const JsonNode &index) {
    slots.push_back(slotOf(index));
    if (!std::holds_alternative<TransientSlot>(manifest.slots[slots.back()]))
      index.fail("slot " + std::to_string(slots.back()) +
                 " is not transient, so it cannot be dropped");
  });
  return slots;
}

Arg OpReader::argument(const JsonNode &value) const {
  const auto &object = value.raw();
  if (!object.is_object() || object.size() != 1)
    value.expected("an object with one key");
  std::string form = object.begin().key();
  JsonNode content = value.at(form);
  if (form == "none")
    return arg::None{};
  if (form == "t")
    return arg::TensorSlot{static_cast<int64_t>(slotOf(content))};
  if (form == "ts")
    return arg::TensorSlots{optionalSlots(content)};
  if (form == "i")
    return content.integer();
  if (form == "is")
    return content.integers();
  if (form == "f")
    return content.number();
  if (form == "fs") {
    std::vector<double> numbers;
    content.forEach(
        [&](const JsonNode &item) { numbers.push_back(item.number()); });
    return numbers;
  }
  if (form == "b")
    return content.boolean();
  if (form == "bs") {
    std::vector<bool> flags;
    content.forEach(
        [&](const JsonNode &item) { flags.push_back(item.boolean()); });
    return flags;
  }
  if (form == "s")
    return content.text();
  if (form == "dtype")
    return readDType(content);
  if (form == "device")
    return arg::Device{content.text()};
  if (form == "layout")
    return arg::Layout{content.text()};
  if (form == "memory_format")
    return arg::MemoryFormat{content.text()};
  value.expected("one of the argument forms of docs/manifest.md");
}

ops::AtenCall OpReader::atenCall() const {
  ops::AtenCall call;
  call.callee = node.at("callee").text();
  call.overload = node.at("overload").text();
  node.at("args").forEach([&](const JsonNode &pair) {
    call.args.emplace_back(pair.at(size_t(0)).text(), argument(pair.at(1)));
  });
  call.results = optionalSlots(node.at("results"));
  for (int64_t slot : call.results)
    if (slot >= 0 &&
        !std::holds_alternative<TransientSlot>(manifest.slots[slot]))
      node.at("results").fail("slot " + std::to_string(slot) +
                              " is not transient, so it cannot be a result");
  call.free = freed();
  if (node.has("alias")) {
    std::string alias = node.at("alias").text();
    if (alias != "fresh" && alias != "view" && alias != "unknown")
      node.at("alias").expected("fresh, view or unknown");
    call.mustBeFresh = alias == "fresh";
  }
  if (node.has("replayable"))
    call.replayable = node.at("replayable").boolean();
  if (!node.isNull("functional"))
    call.functional = node.at("functional").text();
  return call;
}

ops::Pack OpReader::pack() const {
  ops::Pack pack;
  node.at("members").forEach([&](const JsonNode &pair) {
    size_t planned = slotOf(pair.at(1));
    if (!std::holds_alternative<PlannedSlot>(manifest.slots[planned]))
      pair.fail("slot " + std::to_string(planned) + " is not planned");
    pack.members.push_back({slotOf(pair.at(size_t(0))), planned});
  });
  node.at("zero").forEach(
      [&](const JsonNode &region) { pack.zero.push_back(readBuf(region)); });
  pack.free = freed();
  pack.bucket = optionalBucket();
  return pack;
}

ops::Accumulate OpReader::accumulate() const {
  std::string mode = node.at("mode").text();
  if (mode != "overwrite" && mode != "add")
    node.at("mode").expected("'overwrite' or 'add'");
  StreamId stream =
      node.isNull("stream") ? StreamId::Compute : readStream(node.at("stream"));
  return {buf("in"),     buf("out"), elements(),
          mode == "add", stream,     optionalBucket()};
}

ops::ReduceScatter OpReader::reduceScatter() const {
  std::optional<Buf> scratch;
  if (!node.isNull("scratch"))
    scratch = buf("scratch");
  return {bucket(),
          readAxis(node.at("axis")),
          readStream(node.at("stream")),
          buf("in"),
          buf("out"),
          scratch,
          readDType(node.at("in_type")),
          readDType(node.at("out_type")),
          elements()};
}

OpKind readKind(const JsonNode &node) {
  std::string kind = node.text();
  for (int i = 0; i <= static_cast<int>(OpKind::Wait); ++i)
    if (kind == name(static_cast<OpKind>(i)))
      return static_cast<OpKind>(i);
  node.fail("the kind '" + kind + "' is unknown to this runtime");
}

void readBody(Op &op, const OpReader &reader) {
  switch (op.kind) {
  case OpKind::AtenCall:
    op.body = reader.atenCall();
    return;
  case OpKind::WriteBuffer:
    op.body = reader.writeBuffer();
    return;
  case OpKind::Loss:
    op.body = reader.loss();
    return;
  case OpKind::Cast:
    op.body = reader.cast();
    return;
  case OpKind::Pack:
    op.body = reader.pack();
    return;
  case OpKind::Accumulate:
    op.body = reader.accumulate();
    return;
  case OpKind::Add:
    op.body = reader.add();
    return;
  case OpKind::ClipGradients:
    op.body = reader.clipGradients();
    return;
  case OpKind::ShardUpdate:
    op.body = reader.shardUpdate();
    return;
  case OpKind::AllGather:
    op.body = reader.allGather();
    return;
  case OpKind::ReduceScatter:
    op.body = reader.reduceScatter();
    return;
  case OpKind::CacheStore:
  case OpKind::CacheLoad:
    op.body = reader.cacheCopy();
    return;
  case OpKind::Record:
  case OpKind::Wait:
    op.body = reader.event();
    return;
  }
}

const char *axisName(Axis axis) {
  switch (axis) {
  case Axis::Node:
    return "over nodes";
  case Axis::Local:
    return "within the node";
  case Axis::World:
    return "over all ranks";
  }
  return "";
}

/// "all-gather of bucket 'blocks.0' over nodes", without the place.
std::string describeBody(const Op &op, const Manifest &manifest) {
  auto bucket = [&](size_t index) {
    return " of bucket '" + manifest.buckets[index].name + "'";
  };
  if (auto *call = std::get_if<ops::AtenCall>(&op.body))
    return call->callee + (call->overload.empty() ? "" : "." + call->overload);
  if (auto *update = std::get_if<ops::ShardUpdate>(&op.body))
    return "shard update" + bucket(update->bucket);
  if (auto *gather = std::get_if<ops::AllGather>(&op.body))
    return "all-gather" + bucket(gather->bucket) + " " + axisName(gather->axis);
  if (auto *reduce = std::get_if<ops::ReduceScatter>(&op.body))
    return "reduce-scatter" + bucket(reduce->bucket) + " " +
           axisName(reduce->axis);
  if (auto *copy = std::get_if<ops::CacheCopy>(&op.body))
    return (op.kind == OpKind::CacheStore ? "cache store" : "cache load") +
           bucket(copy->bucket);
  if (auto *write = std::get_if<ops::WriteBuffer>(&op.body))
    return "write of buffer '" + manifest.buffers[write->buffer].name + "'";
  return name(op.kind);
}

std::string describe(const Op &op, const Manifest &manifest) {
  std::string place = op.module.empty() ? "" : "module '" + op.module + "'";
  if (!op.loc.empty())
    place += (place.empty() ? "" : ", ") + op.loc;
  return describeBody(op, manifest) + (place.empty() ? "" : " (" + place + ")");
}

} // namespace

const char *name(OpKind kind) {
  constexpr const char *names[] = {
      "aten_call",  "write_buffer",   "loss",
      "cast",       "pack",           "accumulate",
      "add",        "clip_gradients", "shard_update",
      "all_gather", "reduce_scatter", "cache_store",
      "cache_load", "record",         "wait"};
  return names[static_cast<size_t>(kind)];
}

Op readOp(const JsonNode &node, const Manifest &manifest) {
  Op op;
  op.kind = readKind(node.at("kind"));
  if (!node.isNull("loc"))
    op.loc = node.at("loc").text();
  if (!node.isNull("module"))
    op.module = node.at("module").text();
  readBody(op, OpReader(node, manifest));
  op.what = describe(op, manifest);
  return op;
}

} // namespace fcdp
