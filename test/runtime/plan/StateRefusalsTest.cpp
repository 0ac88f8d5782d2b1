// SPDX-License-Identifier: Apache-2.0
//
// Refusals of functions, variants, and what a plan keeps in memory.
#include "PlanEdits.h"
#include "plan/StepPlan.h"

using namespace fcdp;
using namespace fcdp::test;

/// Adds a momentum in a file, with these numbers of its place.
static void addInFile(Json &m, const Json &place, uint64_t fileBytes = 65536) {
  m["file_bytes"] = fileBytes;
  Json kept = stateOf(m, "grad");
  kept["role"] = "momentum_buffer";
  for (const char *number : {"offset", "bytes", "node_stride", "local_stride"})
    kept["buf"][number] = place.value(number, 0);
  kept["buf"]["arena"] = "file";
  m["buckets"][0]["states"].push_back(kept);
}

/// Returns the window of a plan whose host arena it does not leave.
static Json windowOf(uint64_t bytes) {
  return {{"arena", "host"},
          {"offset", 0},
          {"bytes", bytes},
          {"node_stride", 0},
          {"local_stride", 0}};
}

static const Refusal kStateRefusals[] = {
    {"Target", [](Json &m) { m["target"] = 7; },
     "plan.target: the value 7 is unknown to this runtime"},
    {"SidesOfAMillion", [](Json &m) { m["buckets"][0]["max_side"] = 1000001; },
     "plan.buckets[0].max_side: expected at most 1000000, got 1000001"},
    {"MeshOfNoNodes", [](Json &m) { m["nodes"] = 0; },
     "plan.nodes: expected 1 to 65536, got 0"},
    {"FunctionMissing",
     [](Json &m) {
       m["functions"][0]["end"] = m["functions"][1]["end"];
       m["functions"].erase(1);
     },
     "'first_microbatch' is missing"},
    {"FunctionUnknown", [](Json &m) { m["functions"][0]["role"] = 11; },
     "plan.functions[0].role: the value 11 is unknown"},
    {"FunctionTwice",
     [](Json &m) {
       m["functions"].push_back(m["functions"].back());
       m["functions"].back()["first"] = m["ops"].size();
     },
     "plan.functions[5]: 'update' is there twice"},
    {"FunctionOfAVariant", [](Json &m) { m["functions"][0]["variant"] = 1; },
     "plan.functions[0].variant: expected 0 for 'init', got 1"},
    {"VariantHuge",
     [](Json &m) {
       addVariant(m);
       m["inputs"] = Json::array();
       m["slots"] = Json::array();
       m["functions"][1]["variant"] = 4294967295;
     },
     "plan.functions[1].variant: expected a number below that of the 5 "
     "functions, got 4294967295"},
    {"VariantMissing",
     [](Json &m) {
       addVariant(m);
       m["functions"][1]["variant"] = 1;
     },
     "plan.functions: 'first_microbatch' of variant 0 is missing"},
    {"VariantWithoutInputs", [](Json &m) { m["functions"][1]["variant"] = 1; },
     "plan.inputs: expected 2 for each of 2 variants, got 2"},
    {"VariantShrinks",
     [](Json &m) {
       addVariant(m);
       m["functions"][1]["variant"] = 1;
       m["inputs"][2]["shape"][0] = 0;
     },
     "plan.inputs[2]: expected input 'x' of variant 1, at least as large as "
     "that of the variant before"},
    {"VariantOfAnInput", [](Json &m) { m["inputs"][1]["variant"] = 1; },
     "plan.inputs: expected 1 for each of 1 variants, got 2"},
    {"VariantOfAnEvaluationsInput",
     [](Json &m) {
       m["inputs"][1]["evaluation"] = true;
       m["inputs"][1]["variant"] = 1;
     },
     "plan.inputs[1].variant: expected 0 for an input of the evaluation, got "
     "1"},
    {"ArenaTooSmall", [](Json &m) { m["device_bytes"] = 100; },
     "inside the device arena of 100 bytes"},
    {"HostArenaTooSmall", [](Json &m) { m["host_bytes"] = 31; },
     "inside the host arena of 31 bytes"},
    {"Sharding", [](Json &m) { m["buckets"][0]["sharding"] = 5; },
     "plan.buckets[0].sharding: the value 5 is unknown"},
    {"ShardOfOtherSharding",
     [](Json &m) { m["buckets"][0]["sharding"] = "node"; },
     "plan.buckets[0].elements: expected 2 shards of 2 elements, got 8"},
    {"NoShardForEachRank",
     [](Json &m) {
       m["buckets"][0]["sharding"] = "none";
       m["buckets"][0]["elements"] = 2;
     },
     "plan.buckets[0].elements: expected a multiple of 4 ranks, got 2"},
    {"HugeOffset",
     [](Json &m) {
       stateOf(m, "shard")["buf"]["offset"] = 9223372036854775807;
     },
     "plan.buckets[0].states[0].buf.offset: expected at most "
     "72057594037927936"},
    {"StrideLeavesArena",
     [](Json &m) { stateOf(m, "shard")["buf"]["node_stride"] = 65536; },
     "inside the device arena"},
    {"Misaligned", [](Json &m) { stateOf(m, "shard")["buf"]["offset"] = 2; },
     "multiples of 4 bytes"},
    {"UnknownArena", [](Json &m) { stateOf(m, "shard")["buf"]["arena"] = 3; },
     "buf.arena: the value 3 is unknown"},
    {"ShardInAFile",
     [](Json &m) {
       m["file_bytes"] = 4096;
       stateOf(m, "shard")["buf"]["arena"] = "file";
     },
     "states.shard: expected it in memory, got a place in a file"},
    {"FileTooSmall", [](Json &m) { addInFile(m, {{"bytes", 8}}, 0); },
     "inside the file arena of 0 bytes"},
    {"BlockOfAFile",
     [](Json &m) { addInFile(m, {{"offset", 64}, {"bytes", 8}}); },
     "expected an offset in a file that is a multiple of 4096, got 64"},
    {"StrideInAFile",
     [](Json &m) { addInFile(m, {{"bytes", 8}, {"local_stride", 4096}}); },
     "expected strides of 0 in a file"},
    {"FileWindowOfACpu", [](Json &m) { m["file_window"] = windowOf(16384); },
     "plan.file_window: expected none for the target 'cpu'"},
    {"FileWindowOfParts",
     [](Json &m) {
       m["target"] = "cuda";
       m["file_window"] = windowOf(4096);
     },
     "plan.file_window: expected host memory for 4 parts of whole blocks of "
     "4096 bytes, got 4096 bytes of the host arena"},
    {"NoShard", [](Json &m) { eraseState(m, "shard"); },
     "the state 'shard' is missing"},
    {"ShardType", [](Json &m) { stateOf(m, "shard")["dtype"] = "bf16"; },
     "states.shard.dtype: expected f32, got bf16"},
    {"GradType", [](Json &m) { stateOf(m, "grad")["dtype"] = "bf16"; },
     "states.grad.dtype: expected f32, got bf16"},
    {"ShardBytes", [](Json &m) { stateOf(m, "shard")["buf"]["bytes"] = 12; },
     "expected 8 (2 elements of f32), got 12"},
    {"BucketElements", [](Json &m) { m["buckets"][0]["elements"] = 12; },
     "expected 4 shards of 2 elements, got 12"},
    {"DType", [](Json &m) { m["buckets"][0]["storage"] = 31; },
     "plan.buckets[0].storage: the value 31 is unknown"},
    {"ParameterBucket", [](Json &m) { m["parameters"][0]["bucket"] = 1; },
     "index 1 is out of range: there are 1 buckets"},
    {"ParameterEnd", [](Json &m) { m["parameters"][0]["offset_elements"] = 3; },
     "'w' ends at element 9 of bucket 'b', which has 8"},
    {"ParameterShape",
     [](Json &m) { m["parameters"][0]["shape"] = {4294967296, 4294967296}; },
     "fewer than 2^56 elements"},
    {"ParameterType", [](Json &m) { m["parameters"][0]["dtype"] = "bf16"; },
     "expected the storage type f32"},
    {"ParameterTwice",
     [](Json &m) { m["parameters"].push_back(m["parameters"][0]); },
     "the name 'w' is there twice"},
    {"ParametersOverlap",
     [](Json &m) {
       Json other = m["parameters"][0];
       other["names"] = {"v"};
       other["offset_elements"] = 2;
       m["parameters"].push_back(other);
     },
     "overlap at element 2"},
    {"GroupIndex", [](Json &m) { m["parameters"][0]["group"] = 0; },
     "parameters[0].group: index 0 is out of range: there are 0 groups"},
    {"GroupRate",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": -1, "weight_decay": 0}])");
     },
     "groups[0].lr_factor: expected a finite number of at least 0, got "
     "-1"},
    {"GroupDecay",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": 1, "weight_decay": -1}])");
     },
     "groups[0].weight_decay: expected a finite number of at least 0, got "
     "-1"},
    {"GroupOfAFrozenParameter",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": 1, "weight_decay": 0}])");
       m["parameters"][0]["group"] = 0;
       m["parameters"][0]["trainable"] = false;
     },
     "parameters[0].group: 'w' is frozen"},
    {"GroupAlignment",
     [](Json &m) {
       m["groups"] = Json::parse(R"([{"lr_factor": 1, "weight_decay": 0}])");
       m["parameters"][0]["offset_elements"] = 2;
     },
     "parameters[0].offset_elements: expected a multiple of 64 bytes, as "
     "the plan has groups, got 8"},
    {"PackedShape",
     [](Json &m) {
       m["parameters"][0]["packed"] =
           Json::parse(R"({"packing": "nf4", "shape": [6], "dtype": "f32"})");
     },
     "parameters[0].packed.shape: expected two dimensions, got [6]"},
    {"PackedType",
     [](Json &m) {
       m["parameters"][0]["packed"] = Json::parse(
           R"({"packing": "int8", "shape": [2, 3], "dtype": "f64"})");
     },
     "parameters[0].packed.dtype: expected f32, bf16 or f16, got f64"},
    {"PackedBytes",
     [](Json &m) {
       m["parameters"][0]["packed"] = Json::parse(
           R"({"packing": "int8", "shape": [2, 3], "dtype": "f32"})");
     },
     "parameters[0].packed: expected 16 bytes of a frozen parameter for "
     "[2, 3], got f32"},
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
                "mutable": false}])");
     },
     "'c' has no value: the step was exported from a model without weights"},
    {"InputTwice", [](Json &m) { m["inputs"][1]["name"] = "x"; },
     "the name 'x' is there twice"},
    {"IndexLimitOfFloats", [](Json &m) { m["inputs"][0]["index_limit"] = 3; },
     "expected null for an input of type f32"},
    {"SlotKind", [](Json &m) { m["slots"][0]["kind"] = 9; },
     "plan.slots[0].kind: the value 9 is unknown"},
    {"SlotInput", [](Json &m) { m["slots"][0]["index"] = 2; },
     "index 2 is out of range: there are 2 inputs"},
    {"SlotOfLossScale", [](Json &m) { m["slots"][4]["kind"] = "loss_scale"; },
     "plan.slots[4]: expected an operation 'unscale_gradients' in a plan with "
     "a slot of kind 'loss_scale'"},
    {"UnscaleWithoutLossScale",
     [](Json &m) {
       Json entry = {{"kind", "unscale_gradients"}};
       append(m, entry);
     },
     "plan.slots: expected a slot of kind 'loss_scale' in a plan with an "
     "operation 'unscale_gradients'"},
    {"SlotOfLossWeight", [](Json &m) { m["slots"][4]["kind"] = "loss_weight"; },
     "plan.slots[4]: expected the field 'loss_weight' in a plan with a slot of "
     "kind 'loss_weight'"},
    {"WholeWithoutLossWeight",
     [](Json &m) { op(m, "pack")["whole"] = stateOf(m, "grad")["buf"]; },
     ".whole: expected it if the plan has 'loss_weight', and only then"},
    {"LossWeightWithoutWhole", [](Json &m) { m["loss_weight"] = "y"; },
     ".whole: expected it if the plan has 'loss_weight', and only then"},
    {"WholeOutOfBounds",
     [](Json &m) {
       setWhole(m);
       op(m, "pack")["whole"]["offset"] = 1 << 20;
     },
     "expected a region inside the device arena"},
    {"LossWeightWithoutSlot", [](Json &m) { setWhole(m); },
     "plan.slots: expected a slot of kind 'loss_weight' in a plan with the "
     "field 'loss_weight'"},
    {"LossWeightOfNoInput",
     [](Json &m) {
       setWhole(m);
       m["loss_weight"] = "mask";
     },
     "plan.loss_weight: expected an input of the step, got 'mask'"},
    {"LossWeightIsComplex",
     [](Json &m) {
       setWhole(m);
       m["loss_weight"] = "x";
       m["inputs"][0]["dtype"] = "c64";
     },
     "plan.loss_weight: expected an input of numbers that are not complex, got "
     "'x'"},
    {"SlotBytes", [](Json &m) { m["slots"][2]["buf"]["bytes"] = 20; },
     "plan.slots[2].buf.bytes: expected 24"},
};

INSTANTIATE_TEST_SUITE_P(States, RefusalTest,
                         ::testing::ValuesIn(kStateRefusals), nameOf);
