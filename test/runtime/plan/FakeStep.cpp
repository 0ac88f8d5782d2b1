// SPDX-License-Identifier: Apache-2.0
#include "plan/FakeStep.h"

#include "plan/PlanHash.h"

#include <cstdlib>
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
  manifest = Json::parse(R"({
    "hash": "0000000000000000000000000000000000000000",
    "version": 3, "target": "cpu", "strategy": "zero3", "mesh": {"nodes": 1, "local": 1},
    "micro_batches": 1,
    "optimizer": {"name": "sgd", "lr": 0.5, "momentum": 0, "dampening": 0,
                  "weight_decay": 0, "nesterov": false},
    "functions": ["init", "only_microbatch", "update"],
    "arenas": {"device": 65536, "host": 4096},
    "parameters": [], "buckets": [], "buffers": [], "inputs": [], "slots": [],
    "events": 8, "expected": {}, "ops": []})");
}

void FakeStep::add(const std::string &function, Json op) {
  calls[function].push_back({op["kind"], manifest["ops"].size()});
  manifest["ops"].push_back(std::move(op));
}

size_t FakeStep::slot(Json slot) {
  manifest["slots"].push_back(std::move(slot));
  return manifest["slots"].size() - 1;
}

void FakeStep::hold(uint64_t bytes) {
  Json functions;
  size_t first = 0;
  for (const std::string name : manifest["functions"]) {
    size_t end = first + calls[name].size();
    functions[name] = {{"first", first},
                       {"end", end},
                       {"ranges", Json::array()},
                       {"results", Json::array()}};
    first = end;
  }
  manifest["held"] = {{"states", bytes}, {"functions", functions}};
}

std::string withHash(const std::string &text) {
  std::string result = text;
  constexpr size_t digits = 40;
  std::string hash = planHash(text);
  result.replace(text.find("\"hash\":\"") + 8, digits, hash);
  return result;
}

std::string FakeStep::text() const { return withHash(manifest.dump()); }

static void writeBytes(std::ostream &out, const char *type, const char *name,
                       const std::string &bytes) {
  out << type << ' ' << name << "[] = {";
  for (unsigned char byte : bytes)
    out << int(byte) << ',';
  out << "0};\nconst uint64_t " << name << "_size = " << bytes.size() << ";\n";
}

std::string FakeStep::build(const TemporaryFolder &folder) const {
  std::string source = folder.file("step.c"), object = folder.file("step.so");
  {
    std::ofstream out(source);
    out << "#include \"fcdp/runtime.h\"\n"
        << "const uint32_t fcdp_abi_version = " << abi << ";\n";
    writeBytes(out, "const char", "fcdp_manifest", text());
    writeBytes(out, "_Alignas(64) const unsigned char", "fcdp_constants",
               std::string(constants.begin(), constants.end()));
    for (const auto &name : manifest["functions"]) {
      out << "void fcdp_" << name.get<std::string>() << "(fcdp_step *s) {\n";
      auto found = calls.find(name);
      if (found != calls.end())
        for (const Call &call : found->second)
          out << "  fcdp_rt_" << call.kind << "(s, " << call.op << ");\n";
      out << "}\n";
    }
  }
  std::string command =
      "cc -shared -fPIC -I" FCDP_RUNTIME_INCLUDE " -o " + object + " " + source;
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error("failed: " + command);
  return object;
}

Json device(uint64_t offset, uint64_t bytes) {
  return {{"arena", "device"},
          {"offset", offset},
          {"bytes", bytes},
          {"node_stride", 0},
          {"local_stride", 0}};
}

Json device(uint64_t offset, uint64_t bytes, const std::string &dtype) {
  Json state = device(offset, bytes);
  state["dtype"] = dtype;
  return state;
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
  Json &m = step.manifest;
  m["mesh"] = {{"nodes", nodes}, {"local", locals}};
  m["micro_batches"] = microBatches;
  if (microBatches > 1)
    m["functions"] = {"init", "first_microbatch", "next_microbatch",
                      "last_microbatch", "update"};
  m["parameters"] = Json::parse(R"([{"name": "w", "names": ["w", "tied.w"],
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
                     {{"shard", device(kShard, shardBytes(), "f32")},
                      {"grad", device(kGrad, shardBytes(), "f32")}}}}});
  m["inputs"] = Json::parse(R"([
      {"name": "x", "shape": [2, 3], "dtype": "f32", "index_limit": null,
       "ignore_index": null},
      {"name": "y", "shape": [2, 3], "dtype": "i64", "index_limit": 10,
       "ignore_index": -100}])");
  x = step.slot({{"kind", "input"}, {"input", 0}});
  y = step.slot({{"kind", "input"}, {"input", 1}});
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
                      {"module", "linear"}});
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
                      {"module", "linear"}});
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
  for (const auto &name : step.manifest["functions"]) {
    std::string function = name;
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
