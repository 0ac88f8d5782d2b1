// SPDX-License-Identifier: Apache-2.0
#include "plan/FakeStep.h"
#include "fcdp/runtime.h"
#include "plan/PlanReader.h"

#include "plan/Plan_bfbs_generated.h"
#include <flatbuffers/idl.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace fcdp::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "fcdp-test-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw std::runtime_error("mkdtemp failed");
  path = pattern;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path); }

FakeStep::FakeStep() {
  plan = Json::parse(R"({
    "strategy": "zero3", "nodes": 1, "ranks_per_node": 1, "micro_batches": 1,
    "optimizer": {"kind": "sgd", "lr": 0.5},
    "device_bytes": 65536, "host_bytes": 4096, "state_bytes": 65536,
    "planned": {"device_bytes": 65536, "pool_bytes": 0, "input_bytes": 0},
    "num_events": 8, "functions": [], "parameters": [], "buckets": [],
    "buffers": [], "inputs": [], "slots": [], "ops": []})");
  setFunctions({"init", "only_microbatch", "update"});
}

void FakeStep::setFunctions(const std::vector<std::string> &roles) {
  plan["functions"] = Json::array();
  for (const std::string &role : roles)
    plan["functions"].push_back(Json::parse(
        R"({"role": ")" + role + R"(", "first": 0, "end": 0, "reserved": [],
            "results": [], "expected": {"inter_bytes": 0, "intra_bytes": 0,
            "h2d_bytes": 0, "d2h_bytes": 0}})"));
}

void FakeStep::add(const std::string &role, Json op) {
  bool isBehind = false;
  for (Json &function : plan["functions"]) {
    size_t end = function["end"];
    if (isBehind)
      function["first"] = function["first"].get<size_t>() + 1;
    else if (function["role"] == role)
      plan["ops"].insert(plan["ops"].begin() + end, std::move(op));
    isBehind = isBehind || function["role"] == role;
    if (isBehind)
      function["end"] = end + 1;
  }
}

size_t FakeStep::slot(Json slot) {
  plan["slots"].push_back(std::move(slot));
  return plan["slots"].size() - 1;
}

namespace {

/// {"kind": K, ...} as the union FIELD of `table`.
void putUnion(Json &table, const std::string &field, Json value) {
  table[field + "_type"] = value["kind"];
  value.erase("kind");
  table[field] = std::move(value);
}

/// ["self", {"t": 3}] as the schema has it.
Json argument(const Json &pair) {
  static const std::map<std::string, std::pair<std::string, std::string>>
      forms = {
          {"t", {"tensor", "slots"}},        {"ts", {"tensors", "slots"}},
          {"i", {"integer", "integers"}},    {"is", {"integers", "integers"}},
          {"f", {"float_number", "floats"}}, {"b", {"boolean", "integers"}}};
  auto value = pair[1].begin();
  auto [kind, field] = forms.at(value.key());
  return {{"name", pair[0]},
          {"kind", kind},
          {field, value->is_array() ? *value : Json::array({*value})}};
}

Json operation(Json op) {
  Json result;
  for (const char *key : {"loc", "module_path"})
    if (op.contains(key)) {
      result[key] = op[key];
      op.erase(key);
    }
  if (op.contains("args"))
    for (Json &one : op["args"])
      if (one.is_array())
        one = argument(one);
  if (op.contains("members"))
    for (Json &one : op["members"])
      one = {{"source", one[0]}, {"planned", one[1]}};
  putUnion(result, "body", std::move(op));
  return result;
}

} // namespace

std::string FakeStep::bytes() const {
  Json full = {
      {"constants_hash", hashBytes(std::as_bytes(std::span(constants)))}};
  full.update(plan);
  full.erase("optimizer");
  putUnion(full, "optimizer", plan["optimizer"]);
  for (Json &op : full["ops"])
    op = operation(std::move(op));
  flatbuffers::Parser parser;
  if (!parser.Deserialize(plan::PlanBinarySchema::data(),
                          plan::PlanBinarySchema::size()) ||
      !parser.ParseJson(full.dump().c_str()))
    throw std::logic_error(parser.error_);
  return {reinterpret_cast<const char *>(parser.builder_.GetBufferPointer()),
          parser.builder_.GetSize()};
}

StepPlan FakeStep::load() const { return loadBytes(bytes()); }

StepPlan FakeStep::loadBytes(const std::string &bytes) const {
  // As aligned as in an object.
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t) + 1);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  auto span = std::as_bytes(std::span(words)).first(bytes.size());
  return loadPlan(span, hashBytes(span), std::as_bytes(std::span(constants)));
}

static void writeBytes(std::ostream &out, const char *type, const char *name,
                       std::span<const std::byte> bytes) {
  out << "_Alignas(64) const " << type << ' ' << name << "[] = {";
  for (std::byte byte : bytes)
    out << int(byte) << ',';
  out << "0};\nconst uint64_t " << name << "_size = " << bytes.size() << ";\n";
}

void seal(const std::string &object) {
  std::ifstream file(object, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::ofstream(object, std::ios::binary | std::ios::app)
      << FCDP_OBJECT_SEAL << hashBytes(std::as_bytes(std::span(bytes)));
}

std::string FakeStep::build(const TemporaryFolder &folder) const {
  std::string source = folder.file("step.c"), object = folder.file("step.so");
  {
    std::string packed = bytes();
    auto span = std::as_bytes(std::span(packed));
    std::ofstream out(source);
    out << "#include <stdint.h>\n"
        << "const uint32_t fcdp_abi_version = " << abi << ";\n"
        << "const char fcdp_plan_hash[] = \"" << hashBytes(span) << "\";\n";
    writeBytes(out, "unsigned char", "fcdp_plan", span);
    writeBytes(out, "unsigned char", "fcdp_constants",
               std::as_bytes(std::span(constants)));
  }
  std::string command = "cc -shared -fPIC -o " + object + " " + source;
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error("failed: " + command);
  seal(object);
  return object;
}

Json device(uint64_t offset, uint64_t bytes) {
  return {{"arena", "device"},
          {"offset", offset},
          {"bytes", bytes},
          {"node_stride", 0},
          {"local_stride", 0}};
}

Json state(const std::string &role, const std::string &dtype, Json buf) {
  return {{"role", role}, {"dtype", dtype}, {"buf", std::move(buf)}};
}

Json host(uint64_t offset, uint64_t bytes) {
  Json buf = device(offset, bytes);
  buf["arena"] = "host";
  return buf;
}

namespace {

// Places in the arenas of linearStep, in bytes. The bucket has 8 elements.
constexpr uint64_t kBucket = 32, kShard = 0, kGrad = 64, kGathered = 128,
                   kPacked = 192, kScratch = 256, kSlice = 320, kReduced = 384;

/// Builds linearStep piece by piece.
class LinearStep {
public:
  LinearStep(uint32_t nodes, uint32_t locals, int microBatches)
      : nodes(nodes), locals(locals), microBatches(microBatches) {}

  FakeStep build();

private:
  void declare();
  void gather(const std::string &function);
  void compute(const std::string &function);
  void reduce(const std::string &function, bool add);
  void event(const std::string &function, const std::string &from,
             const std::string &to);
  void call(const std::string &function, const std::string &callee,
            const std::string &overload,
            const std::vector<std::pair<std::string, Json>> &args,
            size_t result, std::vector<size_t> free = {});

  uint64_t shardBytes() const { return kBucket / (nodes * locals); }
  uint64_t sliceBytes() const { return kBucket / locals; }

  uint32_t nodes, locals;
  int microBatches;
  FakeStep step;
  size_t x, y, w, packed;
  uint32_t nextEvent = 0;
};

void LinearStep::declare() {
  Json &m = step.plan;
  m["nodes"] = nodes;
  m["ranks_per_node"] = locals;
  m["micro_batches"] = microBatches;
  if (microBatches > 1)
    step.setFunctions({"init", "first_microbatch", "next_microbatch",
                       "last_microbatch", "update"});
  m["parameters"] = Json::parse(R"([{"names": ["w", "tied.w"],
      "shape": [2, 3], "dtype": "f32", "trainable": true, "bucket": 0,
      "offset_elements": 0}])");
  m["buckets"] =
      Json::array({{{"name", "b"},
                    {"unit", "linear"},
                    {"trainable", true},
                    {"elements", 8},
                    {"sharding", "world"},
                    {"shard_elements", 8 / (nodes * locals)},
                    {"storage", "f32"},
                    {"wire", "f32"},
                    {"reduce", "f32"},
                    {"states",
                     {state("shard", "f32", device(kShard, shardBytes())),
                      state("grad", "f32", device(kGrad, shardBytes()))}}}});
  m["inputs"] = Json::parse(R"([
      {"name": "x", "shape": [2, 3], "dtype": "f32"},
      {"name": "y", "shape": [2, 3], "dtype": "i64", "index_limit": 10,
       "ignore_index": -100}])");
  x = step.slot({{"kind", "input"}, {"index", 0}});
  y = step.slot({{"kind", "input"}, {"index", 1}});
  w = step.slot({{"kind", "planned"},
                 {"buf", device(kGathered, 24)},
                 {"shape", Json::array({2, 3})},
                 {"dtype", "f32"}});
  packed = step.slot({{"kind", "planned"},
                      {"buf", device(kPacked, 24)},
                      {"shape", Json::array({2, 3})},
                      {"dtype", "f32"}});
}

void LinearStep::event(const std::string &function, const std::string &from,
                       const std::string &to) {
  uint32_t number = nextEvent++ % 8;
  step.add(function, {{"kind", "record"}, {"event", number}, {"stream", from}});
  step.add(function, {{"kind", "wait"}, {"event", number}, {"stream", to}});
}

void LinearStep::gather(const std::string &function) {
  event(function, "compute", "inter");
  step.add(function, {{"kind", "all_gather"},
                      {"bucket", 0},
                      {"axis", "node"},
                      {"stream", "inter"},
                      {"in", device(kShard, shardBytes())},
                      {"out", device(kSlice, sliceBytes())},
                      {"loc", "model.py:3"},
                      {"module_path", "linear"}});
  // Through the host cache and back, each rank in its own place.
  Json cached = host(0, sliceBytes());
  cached["local_stride"] = sliceBytes();
  event(function, "inter", "d2h");
  step.add(function, {{"kind", "cache_store"},
                      {"bucket", 0},
                      {"stream", "d2h"},
                      {"in", device(kSlice, sliceBytes())},
                      {"out", cached}});
  event(function, "d2h", "h2d");
  step.add(function, {{"kind", "cache_load"},
                      {"bucket", 0},
                      {"stream", "h2d"},
                      {"in", cached},
                      {"out", device(kSlice, sliceBytes())}});
  event(function, "h2d", "intra");
  step.add(function, {{"kind", "all_gather"},
                      {"bucket", 0},
                      {"axis", "local"},
                      {"stream", "intra"},
                      {"in", device(kSlice, sliceBytes())},
                      {"out", device(kGathered, kBucket)}});
  event(function, "intra", "compute");
}

void LinearStep::call(const std::string &function, const std::string &callee,
                      const std::string &overload,
                      const std::vector<std::pair<std::string, Json>> &args,
                      size_t result, std::vector<size_t> free) {
  Json list = Json::array();
  for (const auto &[name, value] : args)
    list.push_back(Json::array({name, value}));
  step.add(function, {{"kind", "aten_call"},
                      {"callee", callee},
                      {"overload", overload},
                      {"args", std::move(list)},
                      {"results", Json::array({result})},
                      {"free", free},
                      {"loc", "model.py:7"},
                      {"module_path", "linear"}});
}

void LinearStep::compute(const std::string &function) {
  auto t = [](size_t slot) { return Json{{"t", slot}}; };
  size_t wx = step.transient(), diff = step.transient(),
         square = step.transient(), loss = step.transient(),
         twice = step.transient(), grad = step.transient();
  call(function, "aten::mul", "Tensor", {{"self", t(w)}, {"other", t(x)}}, wx);
  call(function, "aten::sub", "Tensor", {{"self", t(wx)}, {"other", t(y)}},
       diff, {wx});
  call(function, "aten::pow", "Tensor_Scalar",
       {{"self", t(diff)}, {"exponent", {{"i", 2}}}}, square);
  call(function, "aten::sum", "", {{"self", t(square)}}, loss, {square});
  step.add(function,
           {{"kind", "loss"}, {"slot", loss}, {"free", Json::array({loss})}});
  call(function, "aten::mul", "Tensor",
       {{"self", t(diff)}, {"other", {{"f", 2.0}}}}, twice, {diff});
  call(function, "aten::mul", "Tensor", {{"self", t(twice)}, {"other", t(x)}},
       grad, {twice});
  step.add(function, {{"kind", "pack"},
                      {"members", Json::array({Json::array({grad, packed})})},
                      {"zero", Json::array({device(kPacked + 24, 8)})},
                      {"free", Json::array({grad})}});
}

void LinearStep::reduce(const std::string &function, bool add) {
  event(function, "compute", "intra_reduce");
  step.add(function, {{"kind", "reduce_scatter"},
                      {"bucket", 0},
                      {"axis", "local"},
                      {"stream", "intra_reduce"},
                      {"in", device(kPacked, kBucket)},
                      {"out", device(kSlice, sliceBytes())},
                      {"scratch", device(kScratch, kBucket)},
                      {"in_type", "f32"},
                      {"out_type", "f32"},
                      {"elements", 8}});
  event(function, "intra_reduce", "inter_reduce");
  step.add(function, {{"kind", "reduce_scatter"},
                      {"bucket", 0},
                      {"axis", "node"},
                      {"stream", "inter_reduce"},
                      {"in", device(kSlice, sliceBytes())},
                      {"out", device(kReduced, shardBytes())},
                      {"scratch", device(kScratch, sliceBytes())},
                      {"in_type", "f32"},
                      {"out_type", "f32"},
                      {"elements", 8 / locals}});
  event(function, "inter_reduce", "compute");
  step.add(function, {{"kind", "accumulate"},
                      {"in", device(kReduced, shardBytes())},
                      {"out", device(kGrad, shardBytes())},
                      {"elements", 8 / (nodes * locals)},
                      {"mode", add ? "add" : "overwrite"}});
}

FakeStep LinearStep::build() {
  declare();
  const Json functions = step.plan["functions"];
  for (const Json &each : functions) {
    std::string function = each["role"];
    if (function == "init" || function == "update")
      continue;
    gather(function);
    compute(function);
    reduce(function,
           function == "next_microbatch" || function == "last_microbatch");
  }
  step.add("update", {{"kind", "shard_update"},
                      {"bucket", 0},
                      {"grad_scale", 1.0 / (nodes * locals * microBatches)}});
  return step;
}

} // namespace

FakeStep linearStep(uint32_t nodes, uint32_t locals, int microBatches) {
  return LinearStep(nodes, locals, microBatches).build();
}

} // namespace fcdp::test
