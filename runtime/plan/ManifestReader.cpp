// SPDX-License-Identifier: Apache-2.0
//
// Reads all of the manifest but its "ops".
#include "plan/ManifestReader.h"

namespace fcdp {

namespace {

std::vector<std::string> readTexts(const JsonNode &node) {
  std::vector<std::string> texts;
  node.forEach([&](const JsonNode &text) { texts.push_back(text.text()); });
  return texts;
}

Mesh readMesh(const JsonNode &node) {
  constexpr int64_t mostRanks = 1 << 16;
  Mesh mesh;
  mesh.nodes = node.at("nodes").integer(1, mostRanks);
  mesh.locals = node.at("local").integer(1, mostRanks);
  return mesh;
}

Target readTarget(const JsonNode &node) {
  std::string target = node.text();
  if (target == "cpu")
    return Target::Cpu;
  if (target == "cuda")
    return Target::Cuda;
  node.expected("'cpu' or 'cuda'");
}

Optimizer readOptimizer(const JsonNode &node) {
  std::string name = node.at("name").text();
  auto number = [&](const char *key) { return node.at(key).number(); };
  if (name == "adamw")
    return AdamW{number("lr"), number("beta1"), number("beta2"), number("eps"),
                 number("weight_decay")};
  if (name == "sgd")
    return Sgd{number("lr"), number("momentum"), number("dampening"),
               number("weight_decay"), node.at("nesterov").boolean()};
  node.at("name").expected("'adamw' or 'sgd'");
}

std::optional<TypedBuf> readState(const JsonNode &states, const char *key) {
  if (states.isNull(key))
    return std::nullopt;
  JsonNode node = states.at(key);
  TypedBuf state;
  static_cast<Buf &>(state) = readBuf(node);
  state.dtype = readDType(node.at("dtype"));
  return state;
}

Sharding readSharding(const JsonNode &node) {
  std::string sharding = node.text();
  if (sharding == "world")
    return Sharding::World;
  if (sharding == "node")
    return Sharding::Node;
  if (sharding == "none")
    return Sharding::None;
  node.expected("'world', 'node' or 'none'");
}

Bucket readBucket(const JsonNode &node) {
  Bucket bucket;
  bucket.name = node.at("name").text();
  bucket.unit = node.at("unit").text();
  bucket.trainable = node.at("trainable").boolean();
  bucket.elements = readSize(node.at("elements"));
  bucket.sharding = readSharding(node.at("sharding"));
  bucket.shardElements = readSize(node.at("shard_elements"));
  bucket.storage = readDType(node.at("storage"));
  bucket.wire = readDType(node.at("wire"));
  if (!node.isNull("reduce"))
    bucket.reduce = readDType(node.at("reduce"));
  JsonNode states = node.at("states");
  states.forEachMember([&](std::string_view key, const JsonNode &state) {
    for (const char *known :
         {"shard", "grad", "exp_avg", "exp_avg_sq", "momentum_buffer", "host",
          "resident", "node_grad", "full_grad", "host_grad"})
      if (key == known)
        return;
    state.fail("this state is unknown to this runtime");
  });
  bucket.shard = readState(states, "shard");
  bucket.grad = readState(states, "grad");
  bucket.expAvg = readState(states, "exp_avg");
  bucket.expAvgSq = readState(states, "exp_avg_sq");
  bucket.momentumBuffer = readState(states, "momentum_buffer");
  bucket.host = readState(states, "host");
  bucket.resident = readState(states, "resident");
  bucket.nodeGrad = readState(states, "node_grad");
  bucket.fullGrad = readState(states, "full_grad");
  bucket.hostGrad = readState(states, "host_grad");
  return bucket;
}

Parameter readParameter(const JsonNode &node, size_t numBuckets) {
  Parameter parameter;
  parameter.name = node.at("name").text();
  parameter.names = readTexts(node.at("names"));
  if (parameter.names.empty() || parameter.names.front() != parameter.name)
    node.at("names").expected("'" + parameter.name + "' as the first name");
  parameter.shape = readShape(node.at("shape"));
  parameter.dtype = readDType(node.at("dtype"));
  parameter.trainable = node.at("trainable").boolean();
  parameter.bucket = readIndex(node.at("bucket"), numBuckets, "buckets");
  parameter.offsetElements = readSize(node.at("offset_elements"));
  return parameter;
}

BufferSpec readBufferSpec(const JsonNode &node) {
  BufferSpec buffer;
  buffer.name = node.at("name").text();
  buffer.shape = readShape(node.at("shape"));
  buffer.dtype = readDType(node.at("dtype"));
  buffer.persistent = node.at("persistent").boolean();
  buffer.isMutable = node.at("mutable").boolean();
  if (!node.isNull("constant_offset"))
    buffer.constantOffset = readSize(node.at("constant_offset"));
  return buffer;
}

InputSpec readInputSpec(const JsonNode &node) {
  InputSpec input;
  input.name = node.at("name").text();
  input.shape = readShape(node.at("shape"));
  input.dtype = readDType(node.at("dtype"));
  if (!node.isNull("index_limit"))
    input.indexLimit = node.at("index_limit").integer(1);
  if (!node.isNull("ignore_index"))
    input.ignoreIndex = node.at("ignore_index").integer();
  return input;
}

Slot readSlot(const JsonNode &node, const Manifest &manifest) {
  std::string kind = node.at("kind").text();
  if (kind == "transient")
    return TransientSlot{};
  if (kind == "input")
    return InputSlot{
        readIndex(node.at("input"), manifest.inputs.size(), "inputs")};
  if (kind == "buffer")
    return BufferSlot{
        readIndex(node.at("buffer"), manifest.buffers.size(), "buffers")};
  if (kind == "planned")
    return PlannedSlot{readBuf(node.at("buf")), readShape(node.at("shape")),
                       readDType(node.at("dtype"))};
  node.at("kind").expected("'transient', 'input', 'buffer' or 'planned'");
}

LinkBytes readLinkBytes(const JsonNode &node) {
  return {readSize(node.at("inter_bytes")), readSize(node.at("intra_bytes")),
          readSize(node.at("h2d_bytes")), readSize(node.at("d2h_bytes"))};
}

template <typename T, typename Read>
void readAll(const JsonNode &list, std::vector<T> &out, Read read) {
  out.reserve(list.size());
  list.forEach([&](const JsonNode &node) { out.push_back(read(node)); });
}

HeldRange readHeldRange(const JsonNode &node) {
  constexpr size_t numbers = 4;
  if (node.size() != numbers)
    node.expected("[from, to, offset, bytes]");
  auto number = [&](size_t i) { return readSize(node.at(i)); };
  return {number(0), number(1), number(2), number(3)};
}

ResultPlace readResultPlace(const JsonNode &node) {
  constexpr size_t numbers = 3;
  if (node.size() != numbers)
    node.expected("[op, offset, bytes]");
  auto number = [&](size_t i) { return readSize(node.at(i)); };
  return {number(0), number(1), number(2)};
}

FunctionSpec readFunctionSpec(const JsonNode &node) {
  FunctionSpec spec;
  spec.first = readSize(node.at("first"));
  spec.end = readSize(node.at("end"));
  std::vector<HeldRange> ranges;
  readAll(node.at("ranges"), ranges, readHeldRange);
  spec.held = HeldMemory(std::move(ranges));
  readAll(node.at("results"), spec.results, readResultPlace);
  return spec;
}

void readHeld(const JsonNode &root, Manifest &m) {
  m.stateBytes = m.deviceBytes;
  if (root.isNull("held"))
    return;
  JsonNode held = root.at("held");
  m.stateBytes = readSize(held.at("states"));
  held.at("functions")
      .forEachMember([&](std::string_view function, const JsonNode &node) {
        m.specs.emplace(function, readFunctionSpec(node));
      });
}

} // namespace

uint64_t readSize(const JsonNode &node) {
  return node.integer(0, kGreatestSize);
}

DType readDType(const JsonNode &node) {
  std::string spelling = node.text();
  for (DType type :
       {DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::I16,
        DType::I32, DType::I64, DType::U8, DType::Bool})
    if (spelling == name(type))
      return type;
  node.expected("one of f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool");
}

Buf readBuf(const JsonNode &node) {
  Buf buf;
  std::string arena = node.at("arena").text();
  if (arena != "device" && arena != "host")
    node.at("arena").expected("'device' or 'host'");
  buf.arena = arena == "host" ? Arena::Host : Arena::Device;
  buf.offset = readSize(node.at("offset"));
  buf.bytes = readSize(node.at("bytes"));
  buf.nodeStride = readSize(node.at("node_stride"));
  buf.localStride = readSize(node.at("local_stride"));
  return buf;
}

Shape readShape(const JsonNode &node) {
  Shape shape = node.integers(0);
  int64_t elements = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(elements, extent, &elements) ||
        elements > kGreatestSize)
      node.expected("a shape of fewer than 2^56 elements");
  return shape;
}

size_t readIndex(const JsonNode &node, size_t limit, const char *what) {
  int64_t index = node.integer(0);
  if (static_cast<uint64_t>(index) >= limit)
    node.fail("index " + std::to_string(index) +
              " is out of range: there are " + std::to_string(limit) + " " +
              what);
  return index;
}

Manifest readManifest(const JsonNode &root) {
  Manifest m;
  m.hash = root.at("hash").text();
  m.target = readTarget(root.at("target"));
  m.strategy = root.at("strategy").text();
  m.mesh = readMesh(root.at("mesh"));
  m.microBatches = root.at("micro_batches").integer(1, kGreatestSize);
  m.optimizer = readOptimizer(root.at("optimizer"));
  m.functions = readTexts(root.at("functions"));
  m.deviceBytes = readSize(root.at("arenas").at("device"));
  m.hostBytes = readSize(root.at("arenas").at("host"));
  readHeld(root, m);
  readAll(root.at("buckets"), m.buckets, readBucket);
  readAll(root.at("parameters"), m.parameters, [&](const JsonNode &node) {
    return readParameter(node, m.buckets.size());
  });
  readAll(root.at("buffers"), m.buffers, readBufferSpec);
  readAll(root.at("inputs"), m.inputs, readInputSpec);
  readAll(root.at("slots"), m.slots,
          [&](const JsonNode &node) { return readSlot(node, m); });
  m.numEvents = root.at("events").integer(0, 1 << 30);
  root.at("expected")
      .forEachMember([&](std::string_view function, const JsonNode &node) {
        m.expected.emplace(function, readLinkBytes(node));
      });
  readAll(root.at("ops"), m.ops,
          [&](const JsonNode &node) { return readOp(node, m); });
  return m;
}

} // namespace fcdp
