// SPDX-License-Identifier: Apache-2.0
#include "plan/Manifest.h"
#include "plan/FakeStep.h"
#include "plan/PlanHash.h"

#include <functional>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

Json &op(Json &manifest, const std::string &kind) {
  for (Json &entry : manifest["ops"])
    if (entry["kind"] == kind)
      return entry;
  throw std::runtime_error("no op " + kind);
}

TEST(ManifestTest, ReadsAStep) {
  Manifest m = parseManifest(linearStep(2, 2, 3).text(), 0);
  EXPECT_EQ(m.mesh.nodes, 2u);
  EXPECT_EQ(m.microBatches, 3);
  EXPECT_EQ(m.functions.size(), 5u);
  ASSERT_EQ(m.parameters.size(), 1u);
  EXPECT_EQ(m.parameters[0].names, (std::vector<std::string>{"w", "tied.w"}));
  EXPECT_EQ(m.buckets[0].shardElements, 2);
  EXPECT_EQ(m.inputs[1].indexLimit, 10);
  EXPECT_EQ(m.inputs[1].ignoreIndex, -100);
  EXPECT_FALSE(m.inputs[0].indexLimit);
  for (const Op &op : m.ops) {
    if (op.kind == OpKind::AllGather) {
      EXPECT_EQ(op.what, "all-gather of bucket 'b' over nodes (module "
                         "'linear', model.py:3)");
      break;
    }
  }
}

TEST(ManifestTest, SaysWhichCommunicatorsItUses) {
  Json json = Json::parse(linearStep(2, 2, 3).text());
  // Two parts of a slice make four ranks' whole.
  for (Json &entry : json["ops"])
    if (entry["kind"] == "all_gather" && entry["axis"] == "local") {
      entry["axis"] = "world";
      uint64_t bytes = entry["in"]["bytes"];
      entry["in"]["bytes"] = bytes / 2;
    }
  Manifest m = parseManifest(withHash(json.dump()), 0);
  EXPECT_TRUE(m.uses(OpKind::AllGather, Axis::Node));
  EXPECT_TRUE(m.uses(OpKind::AllGather, Axis::World));
  EXPECT_FALSE(m.uses(OpKind::AllGather, Axis::Local));
  EXPECT_TRUE(m.uses(OpKind::ReduceScatter, Axis::Local));
  EXPECT_FALSE(m.uses(OpKind::ReduceScatter, Axis::World));
  EXPECT_EQ(m.ranks(Axis::World), 4u);
}

TEST(ManifestTest, AddressesOfRanks) {
  Buf buf;
  buf.offset = 100;
  buf.nodeStride = 10;
  buf.localStride = 1;
  EXPECT_EQ(buf.offsetOn({2, 3}), 123u);
}

TEST(ManifestTest, HashIsOfTheTextWithZeros) {
  std::string text = "{\"hash\":\"" + std::string(40, '0') + "\",\"a\":1}";
  // printf '%s' "$text" | sha1sum
  std::string hash = "db4777f6443b3b32caf1db84fafaf850d46b7d57";
  EXPECT_EQ(planHash(text), hash);
  EXPECT_EQ(planHash(withHash(text)), planHash(text));
  EXPECT_NO_THROW(checkPlanHash(withHash(text)));
  EXPECT_THROW(checkPlanHash(text), std::runtime_error);
  std::string edited = withHash(text);
  edited[edited.size() - 2] = '2';
  EXPECT_THROW(checkPlanHash(edited), std::runtime_error);
}

TEST(ManifestTest, HashMustComeFirst) {
  EXPECT_THROW(planHash("{\"version\":1}"), std::runtime_error);
  EXPECT_THROW(planHash("{\"hash\":\"12\"}"), std::runtime_error);
  EXPECT_THROW(planHash(""), std::runtime_error);
}

TEST(ManifestTest, RefusesWhatIsNoJson) {
  EXPECT_THROW(parseManifest("", 0), std::runtime_error);
  EXPECT_THROW(parseManifest("{\"hash\":", 0), std::runtime_error);
  EXPECT_THROW(parseManifest("[]", 0), std::runtime_error);
}

/// States in front of byte `states`, and one range held by @init, which makes
/// all calls.
void hold(Json &m, uint64_t states, const Json &range) {
  size_t calls = m["ops"].size();
  Json functions;
  for (const Json &name : m["functions"])
    functions[name.get<std::string>()] = {{"first", calls},
                                          {"end", calls},
                                          {"ranges", Json::array()},
                                          {"results", Json::array()}};
  functions["init"]["first"] = 0;
  functions["init"]["ranges"].push_back(range);
  m["held"] = {{"states", states}, {"functions", functions}};
}

/// All that is no state, all the time.
Json everything(const Json &m, uint64_t states) {
  uint64_t end = m["arenas"]["device"];
  return {0, m["ops"].size(), states, end - states};
}

TEST(ManifestTest, ReadsWhatIsHeld) {
  FakeStep step = linearStep(2, 2, 3);
  constexpr uint64_t states = 128;
  hold(step.manifest, states, everything(step.manifest, states));
  Manifest m = parseManifest(step.text(), step.constants.size());
  EXPECT_EQ(m.stateBytes, states);
  const HeldMemory &held = m.specs.at("init").held;
  ASSERT_EQ(held.moments.size(), 2u);
  EXPECT_EQ(held.moments[0].op, 0u);
  EXPECT_EQ(held.moments[1].op, m.ops.size());
  EXPECT_EQ(held.moments[1].ends, std::vector<uint32_t>{0});
}

TEST(ManifestTest, ReadsWhereResultsAre) {
  FakeStep step = linearStep(2, 2, 3);
  Json &m = step.manifest;
  uint64_t end = m["arenas"]["device"];
  m["arenas"]["device"] = end + 256;
  constexpr uint64_t states = 128;
  hold(m, states, {0, m["ops"].size(), states, end - states});
  m["held"]["functions"]["init"]["results"] = {{0, end, 100},
                                               {0, end + 128, 64}};
  std::vector<ResultPlace> results =
      parseManifest(step.text(), step.constants.size())
          .specs.at("init")
          .results;
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].op, 0u);
  EXPECT_EQ(results[1].offset, end + 128);
  EXPECT_EQ(results[1].bytes, 64u);
}

struct Refusal {
  const char *name;
  std::function<void(Json &)> change;
  const char *message;
};

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheKey) {
  FakeStep step = linearStep(2, 2, 3);
  step.constants.resize(8);
  GetParam().change(step.manifest);
  try {
    parseManifest(step.text(), step.constants.size());
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().message),
              std::string::npos)
        << error.what();
  }
}

const Refusal kRefusals[] = {
    {"Version", [](Json &m) { m["version"] = 1; },
     "manifest.version: expected 3, got 1"},
    {"Target", [](Json &m) { m["target"] = "tpu"; },
     "manifest.target: expected 'cpu' or 'cuda', got \"tpu\""},
    {"MissingKey", [](Json &m) { m.erase("mesh"); },
     "manifest: the key 'mesh' is missing"},
    {"MeshOfNoNodes", [](Json &m) { m["mesh"]["nodes"] = 0; },
     "manifest.mesh.nodes: expected an integer of at least 1"},
    {"MeshAsText", [](Json &m) { m["mesh"]["nodes"] = "2"; },
     "expected an integer, got \"2\""},
    {"Optimizer", [](Json &m) { m["optimizer"]["name"] = "muon"; },
     "expected 'adamw' or 'sgd', got \"muon\""},
    {"OptimizerNumber", [](Json &m) { m["optimizer"]["lr"] = true; },
     "manifest.optimizer.lr: expected a number"},
    {"FunctionMissing", [](Json &m) { m["functions"] = {"init", "update"}; },
     "'first_microbatch' is missing"},
    {"FunctionUnknown", [](Json &m) { m["functions"].push_back("other"); },
     "'other' is unknown"},
    {"ArenaTooSmall", [](Json &m) { m["arenas"]["device"] = 100; },
     "inside the device arena of 100 bytes"},
    {"HostArenaTooSmall", [](Json &m) { m["arenas"]["host"] = 31; },
     "inside the host arena of 31 bytes"},
    {"Sharding", [](Json &m) { m["buckets"][0]["sharding"] = "rank"; },
     "manifest.buckets[0].sharding: expected 'world', 'node' or 'none'"},
    {"ShardOfOtherSharding",
     [](Json &m) { m["buckets"][0]["sharding"] = "node"; },
     "manifest.buckets[0].elements: expected 2 shards of 2 elements, got 8"},
    {"NoShardForEachRank",
     [](Json &m) {
       m["buckets"][0]["sharding"] = "none";
       m["buckets"][0]["elements"] = 2;
     },
     "manifest.buckets[0].elements: expected a multiple of 4 ranks, got 2"},
    {"NegativeOffset",
     [](Json &m) { m["buckets"][0]["states"]["shard"]["offset"] = -8; },
     "manifest.buckets[0].states.shard.offset: expected an integer of at "
     "least 0"},
    {"HugeOffset",
     [](Json &m) {
       m["buckets"][0]["states"]["shard"]["offset"] = 9223372036854775807;
     },
     "expected an integer of at most"},
    {"HugeUnsigned",
     [](Json &m) {
       m["buckets"][0]["states"]["shard"]["offset"] = 18446744073709551615u;
     },
     "below 2^63"},
    {"StrideLeavesArena",
     [](Json &m) { m["buckets"][0]["states"]["shard"]["node_stride"] = 65536; },
     "inside the device arena"},
    {"Misaligned",
     [](Json &m) { m["buckets"][0]["states"]["shard"]["offset"] = 2; },
     "multiples of 4 bytes"},
    {"UnknownArena",
     [](Json &m) { m["buckets"][0]["states"]["shard"]["arena"] = "disk"; },
     "expected 'device' or 'host', got \"disk\""},
    {"UnknownState",
     [](Json &m) { m["buckets"][0]["states"]["other"] = device(0, 8, "f32"); },
     "manifest.buckets[0].states.other"},
    {"NoShard", [](Json &m) { m["buckets"][0]["states"].erase("shard"); },
     "the state 'shard' is missing"},
    {"ShardType",
     [](Json &m) { m["buckets"][0]["states"]["shard"]["dtype"] = "bf16"; },
     "states.shard.dtype: expected f32, got bf16"},
    {"GradType",
     [](Json &m) { m["buckets"][0]["states"]["grad"]["dtype"] = "bf16"; },
     "states.grad.dtype: expected f32, got bf16"},
    {"ShardBytes",
     [](Json &m) { m["buckets"][0]["states"]["shard"]["bytes"] = 12; },
     "expected 8 (2 elements of f32), got 12"},
    {"BucketElements", [](Json &m) { m["buckets"][0]["elements"] = 12; },
     "expected 4 shards of 2 elements, got 12"},
    {"DType", [](Json &m) { m["buckets"][0]["storage"] = "f31"; },
     "expected one of f16 bf16"},
    {"ParameterBucket", [](Json &m) { m["parameters"][0]["bucket"] = 1; },
     "index 1 is out of range: there are 1 buckets"},
    {"ParameterEnd", [](Json &m) { m["parameters"][0]["offset_elements"] = 3; },
     "'w' ends at element 9 of bucket 'b', which has 8"},
    {"ParameterShape",
     [](Json &m) { m["parameters"][0]["shape"] = {4294967296, 4294967296}; },
     "fewer than 2^56 elements"},
    {"ParameterType", [](Json &m) { m["parameters"][0]["dtype"] = "bf16"; },
     "expected the storage type f32"},
    {"ParameterFirstName",
     [](Json &m) { m["parameters"][0]["names"] = {"tied.w", "w"}; },
     "expected 'w' as the first name"},
    {"ParameterTwice",
     [](Json &m) { m["parameters"].push_back(m["parameters"][0]); },
     "the name 'w' is there twice"},
    {"ParametersOverlap",
     [](Json &m) {
       Json other = m["parameters"][0];
       other["name"] = "v";
       other["names"] = {"v"};
       other["offset_elements"] = 2;
       m["parameters"].push_back(other);
     },
     "overlap at element 2"},
    {"ConstantEnd",
     [](Json &m) {
       m["buffers"] = Json::parse(
           R"([{"name": "c", "shape": [3], "dtype": "f32", "persistent": false,
                "mutable": false, "constant_offset": 0}])");
     },
     "ends at byte 12 of 8 bytes of constants"},
    {"ConstantWithoutValue",
     [](Json &m) {
       m["buffers"] = Json::parse(
           R"([{"name": "c", "shape": [3], "dtype": "f32", "persistent": false,
                "mutable": false, "constant_offset": null}])");
     },
     "'c' has no value: the step was exported from a model without weights"},
    {"InputTwice", [](Json &m) { m["inputs"][1]["name"] = "x"; },
     "the name 'x' is there twice"},
    {"IndexLimitOfFloats", [](Json &m) { m["inputs"][0]["index_limit"] = 3; },
     "expected null for an input of type f32"},
    {"SlotKind", [](Json &m) { m["slots"][0]["kind"] = "other"; },
     "expected 'transient'"},
    {"SlotInput", [](Json &m) { m["slots"][0]["input"] = 2; },
     "index 2 is out of range: there are 2 inputs"},
    {"SlotBytes", [](Json &m) { m["slots"][2]["buf"]["bytes"] = 20; },
     "manifest.slots[2].buf.bytes: expected 24"},
    {"OpKind", [](Json &m) { op(m, "loss")["kind"] = "gain"; },
     "the kind 'gain' is unknown"},
    {"OpSlot", [](Json &m) { op(m, "loss")["slot"] = 1000; },
     "index 1000 is out of range"},
    {"FreeOfPlanned", [](Json &m) { op(m, "loss")["free"] = {2}; },
     "slot 2 is not transient, so it cannot be dropped"},
    {"ResultIsPlanned", [](Json &m) { op(m, "aten_call")["results"] = {2}; },
     "slot 2 is not transient, so it cannot be a result"},
    {"Replayable", [](Json &m) { op(m, "aten_call")["replayable"] = 1; },
     ".replayable: expected true or false"},
    {"ArgumentForm",
     [](Json &m) { op(m, "aten_call")["args"][0][1] = {{"q", 1}}; },
     "expected one of the argument forms"},
    {"ArgumentForms",
     [](Json &m) {
       op(m, "aten_call")["args"][0][1] = {{"i", 1}, {"b", true}};
     },
     "expected an object with one key"},
    {"ArgumentSlot",
     [](Json &m) { op(m, "aten_call")["args"][0][1] = {{"t", -1}}; },
     "expected an integer of at least 0, got -1"},
    {"PackIntoTransient", [](Json &m) { op(m, "pack")["members"][0][1] = 4; },
     "slot 4 is not planned"},
    {"AccumulateMode", [](Json &m) { op(m, "accumulate")["mode"] = "keep"; },
     "expected 'overwrite' or 'add'"},
    {"AccumulateStream",
     [](Json &m) { op(m, "accumulate")["stream"] = "sums"; },
     "expected 'compute', 'inter'"},
    {"AccumulateBytes", [](Json &m) { op(m, "accumulate")["elements"] = 4; },
     "expected 16 (4 elements of f32), got 8"},
    {"AddBytes",
     [](Json &m) {
       Json entry = {{"kind", "add"},
                     {"sum", op(m, "accumulate")["in"]},
                     {"in", op(m, "accumulate")["in"]},
                     {"out", op(m, "accumulate")["out"]},
                     {"elements", 4}};
       m["ops"].push_back(entry);
     },
     ".sum.bytes: expected 16 (4 elements of f32), got 8"},
    {"HostSumBytes",
     [](Json &m) {
       m["buckets"][0]["states"]["host_grad"] =
           m["buckets"][0]["states"]["grad"];
     },
     "states.host_grad.bytes: expected 16 (4 elements of f32), got 8"},
    {"Axis", [](Json &m) { op(m, "all_gather")["axis"] = "ring"; },
     "expected 'node', 'local' or 'world'"},
    {"Stream", [](Json &m) { op(m, "all_gather")["stream"] = "io"; },
     "expected 'compute', 'inter'"},
    {"StreamsOfOneCommunicator",
     [](Json &m) {
       m["ops"].push_back(Json(op(m, "all_gather")));
       m["ops"].back()["stream"] = "h2d";
     },
     "expected 'inter', as of the first all_gather over this axis, got 'h2d'"},
    {"GatherBytes", [](Json &m) { op(m, "all_gather")["out"]["bytes"] = 12; },
     "expected 16, one 'in' per rank, got 12"},
    {"ReductionElements",
     [](Json &m) { op(m, "reduce_scatter")["elements"] = 7; },
     "expected a multiple of 2, got 7"},
    {"ReductionScratch",
     [](Json &m) { op(m, "reduce_scatter").erase("scratch"); },
     "the key 'scratch' is missing"},
    {"CopyBytes", [](Json &m) { op(m, "cache_store")["out"]["bytes"] = 8; },
     "expected 16, the bytes of 'in', got 8"},
    {"Event", [](Json &m) { m["events"] = 1; }, "there are 1 events"},
    {"UpdateWithoutGrad",
     [](Json &m) { m["buckets"][0]["states"].erase("grad"); },
     "bucket 'b' has no state 'grad'"},
    {"UpdateWithoutMomentum", [](Json &m) { m["optimizer"]["momentum"] = 0.9; },
     "bucket 'b' has no state 'momentum_buffer'"},
    {"HeldStatesBehindTheArena",
     [](Json &m) { hold(m, 1 << 20, {0, 1, 0, 64}); },
     "manifest.held.states: expected at most the 65536 bytes"},
    {"HeldStatesUneven", [](Json &m) { hold(m, 100, {0, 1, 128, 64}); },
     "manifest.held.states: expected a multiple of 64, got 100"},
    {"HeldStateBehind", [](Json &m) { hold(m, 0, {0, 1, 0, 64}); },
     "manifest.held.states: expected all states in front of it"},
    {"HeldFunctionMissing",
     [](Json &m) {
       hold(m, 4096, everything(m, 4096));
       m["held"]["functions"].erase("update");
     },
     "manifest.held.functions: 'update' is missing"},
    {"HeldFunctionsOverlap",
     [](Json &m) {
       hold(m, 4096, everything(m, 4096));
       m["held"]["functions"]["update"]["first"] = 1;
     },
     "manifest.held.functions: expected functions of operations that follow"},
    {"HeldCallsMissing",
     [](Json &m) {
       hold(m, 4096, everything(m, 4096));
       m["ops"].push_back(m["ops"][0]);
     },
     "manifest.held.functions: expected functions of"},
    {"HeldRange", [](Json &m) { hold(m, 4096, {0, 1, 4096}); },
     "ranges[0]: expected [from, to, offset, bytes]"},
    {"HeldBackwards", [](Json &m) { hold(m, 4096, {1, 1, 4096, 64}); },
     "ranges[0]: expected a stretch of the function's operations"},
    {"HeldInStates", [](Json &m) { hold(m, 4096, {0, 1, 0, 64}); },
     "ranges[0]: expected bytes between 4096, where states end"},
    {"HeldUneven", [](Json &m) { hold(m, 4096, {0, 1, 4100, 64}); },
     "ranges[0]: expected an offset that is a multiple of 64, got 4100"},
    {"HeldUnevenBytes", [](Json &m) { hold(m, 4096, {0, 1, 4096, 100}); },
     "ranges[0]: expected bytes that are a multiple of 64, got 100"},
    {"HeldNothing", [](Json &m) { hold(m, 4096, {0, 1, 4096, 0}); },
     "ranges[0]: expected bytes, got 0"},
    {"Result",
     [](Json &m) {
       hold(m, 4096, everything(m, 4096));
       m["held"]["functions"]["init"]["results"] = {{0, 4096}};
     },
     "results[0]: expected [op, offset, bytes]"},
    {"ResultOfAnotherFunction",
     [](Json &m) {
       hold(m, 4096, everything(m, 4096));
       m["held"]["functions"]["update"]["results"] = {{0, 4096, 64}};
     },
     "results[0]: expected an operation from"},
    {"ResultInStates",
     [](Json &m) {
       hold(m, 4096, everything(m, 4096));
       m["held"]["functions"]["init"]["results"] = {{0, 0, 64}};
     },
     "results[0]: expected bytes between 4096, where states end"},
    {"ResultWhereHeld",
     [](Json &m) {
       hold(m, 4096, everything(m, 4096));
       m["held"]["functions"]["init"]["results"] = {{0, 4096, 64}};
     },
     "results[0]: bytes 4096 to 65536 of the device arena are held where "
     "operation 0 runs"},
    {"HeldTooLittle", [](Json &m) { hold(m, 128, {0, 1, 128, 64}); },
     "of the device arena are not held there"},
    {"UpdateOfFrozen", [](Json &m) { m["buckets"][0]["trainable"] = false; },
     "bucket 'b' is frozen"},
};

INSTANTIATE_TEST_SUITE_P(Manifest, RefusalTest, ::testing::ValuesIn(kRefusals),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
