// SPDX-License-Identifier: Apache-2.0
//
// Refusals of operations.
#include "PlanEdits.h"
#include "plan/StepPlan.h"

using namespace fcdp;
using namespace fcdp::test;

static const Refusal kOpRefusals[] = {
    {"OpSlot", [](Json &m) { op(m, "loss")["slot"] = 1000; },
     "index 1000 is out of range"},
    {"FreeOfPlanned", [](Json &m) { op(m, "loss")["free"] = {2}; },
     "slot 2 is not transient, so it cannot be dropped"},
    {"UnreadArgumentIsNone",
     [](Json &m) { op(m, "aten_call")["unread"] = {7}; },
     ".body.unread: index 7 is out of range: there are 2 arguments"},
    {"ResultIsPlanned", [](Json &m) { op(m, "aten_call")["results"] = {2}; },
     "slot 2 is not transient, so it cannot be a result"},
    {"ArgumentForm",
     [](Json &m) {
       op(m, "aten_call")["args"][0] = {{"name", "self"}, {"kind", 99}};
     },
     ".args[0].kind: the value 99 is unknown"},
    {"ArgumentSlot",
     [](Json &m) { op(m, "aten_call")["args"][0][1] = {{"t", -1}}; },
     "expected an integer of at least 0, got -1"},
    {"SlotOfNoTensor",
     [](Json &m) {
       op(m, "aten_call")["args"][0] = {
           {"name", "self"}, {"kind", "none"}, {"slots", {1000}}};
     },
     ".body.args: index 1000 is out of range: there are"},
    {"PackIntoTransient", [](Json &m) { op(m, "pack")["members"][0][1] = 4; },
     "slot 4 is not planned"},
    {"AccumulateMode", [](Json &m) { op(m, "accumulate")["mode"] = 2; },
     ".body.mode: the value 2 is unknown"},
    {"AccumulateStream", [](Json &m) { op(m, "accumulate")["stream"] = 8; },
     ".body.stream: the value 8 is unknown"},
    {"AccumulateBytes", [](Json &m) { op(m, "accumulate")["elements"] = 4; },
     "expected 16 (4 elements of f32), got 8"},
    {"AddBytes",
     [](Json &m) {
       Json entry = {{"kind", "add"},
                     {"sum", op(m, "accumulate")["in"]},
                     {"in", op(m, "accumulate")["in"]},
                     {"out", op(m, "accumulate")["out"]},
                     {"elements", 4}};
       append(m, entry);
     },
     ".sum.bytes: expected 16 (4 elements of f32), got 8"},
    {"HostSumBytes",
     [](Json &m) {
       Json sum = stateOf(m, "grad");
       sum["role"] = "host_grad";
       m["buckets"][0]["states"].push_back(sum);
     },
     "states.host_grad.bytes: expected 16 (4 elements of f32), got 8"},
    {"Axis", [](Json &m) { op(m, "all_gather")["axis"] = 3; },
     ".body.axis: the value 3 is unknown"},
    {"Stream", [](Json &m) { op(m, "all_gather")["stream"] = 8; },
     ".body.stream: the value 8 is unknown"},
    {"StreamsOfOneCommunicator",
     [](Json &m) {
       append(m, op(m, "all_gather"));
       m["ops"].back()["stream"] = "h2d";
     },
     "expected 'inter', as of the first all_gather over this axis, got 'h2d'"},
    {"GatherBytes", [](Json &m) { op(m, "all_gather")["out"]["bytes"] = 12; },
     "expected 16, one 'in' per rank, got 12"},
    {"MessagesOfARawGather",
     [](Json &m) {
       op(m, "all_gather")["messages"] = stateOf(m, "grad")["buf"];
     },
     ".messages: expected none with the wire 'raw'"},
    {"WireOfAnotherAxis",
     [](Json &m) {
       makeDelta(m);
       op(m, "all_gather")["axis"] = "local";
     },
     ".axis: expected 'node' with the wire 'delta', got 'local'"},
    {"DeltaWithoutMessages", makeDelta,
     ".messages: expected it with the wire 'delta'"},
    {"MessagesBytes",
     [](Json &m) {
       makeDelta(m);
       op(m, "all_gather")["messages"] = stateOf(m, "grad")["buf"];
     },
     ".messages.bytes: expected 256 (256 elements of u8), got 8"},
    {"DeltaInF32", [](Json &m) { op(m, "all_gather")["wire"] = "delta"; },
     ".wire: expected 'raw', or 'delta' for a bucket in bf16 or f16, got "
     "'delta' for f32"},
    {"CodedGather",
     [](Json &m) {
       m["buckets"][0]["wire"] = "bf16";
       op(m, "all_gather")["wire"] = "coded";
     },
     ".wire: expected 'raw', or 'delta' for a bucket in bf16 or f16, got "
     "'coded' for bf16"},
    {"DeltaWithoutHostState",
     [](Json &m) {
       m["buckets"][0]["wire"] = "bf16";
       op(m, "all_gather")["wire"] = "delta";
     },
     ".out.bytes: expected the size of the state 'cache' of bucket 'b', 0, got "
     "16"},
    {"DeltaReduction",
     [](Json &m) { op(m, "reduce_scatter")["wire"] = "delta"; },
     ".wire: expected 'raw', 'coded', 'int8' or 'int4', got 'delta'"},
    {"ReductionWithoutResidual",
     [](Json &m) { op(m, "reduce_scatter")["wire"] = "int8"; },
     ".elements: expected the state 'residual' of bucket 'b' to have 8 numbers "
     "in f32 in host memory, got 0 bytes"},
    {"EmptyReductionWithoutResidual",
     [](Json &m) {
       Json &reduce = op(m, "reduce_scatter");
       reduce["wire"] = "int4";
       reduce["elements"] = 0;
       reduce["in"]["bytes"] = reduce["out"]["bytes"] = 0;
     },
     ".elements: expected the state 'residual' of bucket 'b' to have 0 numbers "
     "in f32 in host memory, got 0 bytes"},
    {"CodedReductionWithinNodes",
     [](Json &m) { op(m, "reduce_scatter")["wire"] = "coded"; },
     ".axis: expected 'node' with the wire 'coded', got 'local'"},
    {"ReductionElements",
     [](Json &m) { op(m, "reduce_scatter")["elements"] = 7; },
     "expected a multiple of 2, got 7"},
    {"ReductionScratch",
     [](Json &m) { op(m, "reduce_scatter").erase("scratch"); },
     "'scratch' is missing"},
    {"CopyBytes", [](Json &m) { op(m, "cache_store")["out"]["bytes"] = 8; },
     "expected 16, the bytes of 'in', got 8"},
    {"Event", [](Json &m) { m["num_events"] = 1; }, "there are 1 events"},
    {"UpdateWithoutGrad", [](Json &m) { eraseState(m, "grad"); },
     "bucket 'b' has no state 'grad'"},
    {"UpdateWithoutMoment",
     [](Json &m) { m["optimizer"] = {{"kind", "lion"}, {"lr", 0.1}}; },
     "bucket 'b' has no state 'exp_avg'"},
    {"UpdateByAnotherWithoutMoment",
     [](Json &m) {
       op(m, "shard_update")["optimizer_type"] = "lion";
       op(m, "shard_update")["optimizer"] = {{"lr", 0.1}};
     },
     "bucket 'b' has no state 'exp_avg'"},
    {"UpdateInPartsOfBlocks",
     [](Json &m) {
       m["optimizer"] = {{"kind", "adamw8bit"}, {"lr", 0.1}};
       Json grad = stateOf(m, "grad"), states = Json::array();
       for (const char *moment : {"exp_avg", "exp_avg_sq"}) {
         uint64_t bytes = grad["buf"]["bytes"];
         for (auto [suffix, dtype, size] :
              {std::tuple("_code", "u8", bytes / 4),
               std::tuple("_scale", "f32", uint64_t(0))}) {
           Json state = grad;
           state["role"] = std::string(moment) + suffix;
           state["dtype"] = dtype;
           state["buf"]["bytes"] = size;
           m["buckets"][0]["states"].push_back(state);
         }
       }
     },
     "expected shards of whole blocks of 256 elements, got 2"},
    {"UpdateOutOfProportion",
     [](Json &m) {
       m["optimizer"]["lr"] = 0;
       op(m, "shard_update")["optimizer_type"] = "sgd";
       op(m, "shard_update")["optimizer"] = {{"lr", 0.5}};
     },
     "expected a learning rate of 0, as the plan's, got 0.5"},
    {"UpdateOfVectors",
     [](Json &m) {
       m["optimizer"] = {{"kind", "muon"}, {"lr", 0.1}};
       stateOf(m, "grad")["role"] = "momentum_buffer";
       m["buckets"][0]["states"].push_back(stateOf(m, "momentum_buffer"));
       m["buckets"][0]["states"].back()["role"] = "grad";
       m["parameters"][0]["shape"] = {7};
     },
     "expected parameters of two dimensions, got 'w' of shape [7]"},
    {"UpdateOfSplitMatrices",
     [](Json &m) {
       m["optimizer"] = {{"kind", "muon"}, {"lr", 0.1}};
       stateOf(m, "grad")["role"] = "momentum_buffer";
       m["buckets"][0]["states"].push_back(stateOf(m, "momentum_buffer"));
       m["buckets"][0]["states"].back()["role"] = "grad";
       m["parameters"][0]["shape"] = {1, 7};
     },
     "expected whole parameters in each shard, got 'w' at elements 0 to 7 in "
     "shards of 2"},
    {"UpdateOfSplitParameters",
     [](Json &m) {
       m["optimizer"] = {{"kind", "adafactor"}, {"lr", 0.1}};
       m["parameters"][0]["shape"] = {7};
       for (auto [role, elements] :
            {std::pair("row_var", 0), std::pair("col_var", 0),
             std::pair("variance", 7)}) {
         Json state = stateOf(m, "grad");
         state["role"] = role;
         state["buf"]["bytes"] = 4 * elements;
         m["buckets"][0]["states"].push_back(state);
       }
     },
     "expected whole parameters in each shard, got 'w' at elements 0 to 7 in "
     "shards of 2"},
    {"UpdateOfMeansOfOtherRows",
     [](Json &m) {
       m["optimizer"] = {{"kind", "adafactor"}, {"lr", 0.1}};
       m["parameters"][0]["shape"] = {2, 1};
       for (auto [role, elements] :
            {std::pair("row_var", 1), std::pair("col_var", 1),
             std::pair("variance", 0)}) {
         Json state = stateOf(m, "grad");
         state["role"] = role;
         state["buf"]["bytes"] = 4 * elements;
         m["buckets"][0]["states"].push_back(state);
       }
     },
     "row_var.bytes: expected 8 (2 elements of f32), got 4"},
    {"UpdateOfSquaresOfOtherSides",
     [](Json &m) {
       m["optimizer"] = {{"kind", "soap"}, {"lr", 0.1}};
       m["parameters"][0]["shape"] = {2, 1};
       m["buckets"][0]["max_side"] = 1;
       for (auto [role, elements] :
            {std::pair("exp_avg", 2), std::pair("exp_avg_sq", 2),
             std::pair("row_gg", 4), std::pair("col_gg", 16),
             std::pair("row_q", 0), std::pair("col_q", 16)}) {
         Json state = stateOf(m, "grad");
         state["role"] = role;
         state["buf"]["bytes"] = 4 * elements;
         m["buckets"][0]["states"].push_back(state);
       }
     },
     "row_gg.bytes: expected 0 (0 elements of f32), got 16"},
    {"UpdateWithoutVariance",
     [](Json &m) { m["optimizer"] = {{"kind", "adafactor"}, {"lr", 0.1}}; },
     "bucket 'b' has no state 'row_var'"},
    {"UpdateWithoutMomentum", [](Json &m) { m["optimizer"]["momentum"] = 0.9; },
     "bucket 'b' has no state 'momentum_buffer'"},
    {"UpdateOfFrozen", [](Json &m) { m["buckets"][0]["trainable"] = false; },
     "bucket 'b' is frozen"},
};

INSTANTIATE_TEST_SUITE_P(Operations, RefusalTest,
                         ::testing::ValuesIn(kOpRefusals), nameOf);
