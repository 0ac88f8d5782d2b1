// SPDX-License-Identifier: Apache-2.0
//
// The operations of a step, except updates.
#include "step/StepFixture.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace fcdp;
using namespace fcdp::test;

namespace {

TEST_F(StepTest, Cast) {
  addLoss();
  fake.add("only_microbatch", {{"kind", "cast"},
                               {"in", device(0, 16)},
                               {"out", device(64, 8)},
                               {"in_type", "f32"},
                               {"out_type", "bf16"},
                               {"elements", 4}});
  load();
  for (int i = 0; i < 4; ++i)
    backend->at<float>(0)[i] = i + 1;
  run();
  EXPECT_EQ(backend->at<uint16_t>(64)[0], 0x3f80);
  EXPECT_EQ(backend->at<uint16_t>(64)[3], 0x4080);
}

TEST_F(StepTest, Accumulate) {
  addLoss();
  for (const char *mode : {"overwrite", "add"})
    fake.add("only_microbatch", {{"kind", "accumulate"},
                                 {"in", device(0, 16)},
                                 {"out", device(64, 16)},
                                 {"elements", 4},
                                 {"mode", mode}});
  load();
  backend->at<float>(0)[2] = 3;
  backend->at<float>(64)[2] = 100;
  run();
  EXPECT_EQ(backend->at<float>(64)[2], 6);
  EXPECT_TRUE(backend->added.empty());
}

TEST_F(StepTest, AccumulateOnAnotherStream) {
  addLoss();
  for (const char *mode : {"overwrite", "add"})
    fake.add("only_microbatch", {{"kind", "accumulate"},
                                 {"in", device(0, 16)},
                                 {"out", device(64, 16)},
                                 {"elements", 4},
                                 {"mode", mode},
                                 {"stream", "inter_reduce"}});
  load();
  backend->at<float>(0)[2] = 3;
  backend->at<float>(64)[2] = 100;
  run();
  EXPECT_EQ(backend->at<float>(64)[2], 6);
  EXPECT_EQ(backend->added, std::vector{StreamId::InterReduce});
}

TEST_F(StepTest, Add) {
  addLoss();
  fake.add("only_microbatch", {{"kind", "add"},
                               {"sum", device(0, 16)},
                               {"in", device(64, 16)},
                               {"out", device(128, 16)},
                               {"elements", 4}});
  load();
  backend->at<float>(0)[2] = 3;
  backend->at<float>(64)[2] = 100;
  backend->at<float>(128)[2] = 1000;
  run();
  EXPECT_EQ(backend->at<float>(128)[2], 103);
  EXPECT_EQ(backend->at<float>(0)[2], 3);
}

TEST_F(StepTest, PackCopiesStridedAndZeroesPadding) {
  addLoss();
  size_t source = fake.slot({{"kind", "planned"},
                             {"buf", device(0, 24)},
                             {"shape", Json::array({2, 3})},
                             {"dtype", "f32"}});
  size_t transposed = fake.transient();
  size_t target = fake.slot({{"kind", "planned"},
                             {"buf", device(64, 24)},
                             {"shape", Json::array({3, 2})},
                             {"dtype", "f32"}});
  fake.add("only_microbatch",
           {{"kind", "aten_call"},
            {"callee", "aten::t"},
            {"overload", ""},
            {"args", Json::array({Json::array({"self", Json{{"t", source}}})})},
            {"results", Json::array({transposed})},
            {"free", Json::array()}});
  fake.add("only_microbatch",
           {{"kind", "pack"},
            {"members", Json::array({Json::array({transposed, target})})},
            {"zero", Json::array({device(88, 8)})},
            {"free", Json::array({transposed})}});
  load();
  for (int i = 0; i < 6; ++i)
    backend->at<float>(0)[i] = i;
  backend->at<float>(88)[1] = 7;
  run();
  EXPECT_EQ(backend->at<float>(64)[1], 3);
  EXPECT_EQ(backend->at<float>(64)[2], 1);
  EXPECT_EQ(backend->at<float>(88)[1], 0);
}

TEST_F(StepTest, PackDoesNotBroadcast) {
  addLoss();
  size_t source = fake.slot({{"kind", "planned"},
                             {"buf", device(0, 12)},
                             {"shape", Json::array({3})},
                             {"dtype", "f32"}});
  size_t target = fake.slot({{"kind", "planned"},
                             {"buf", device(64, 24)},
                             {"shape", Json::array({2, 3})},
                             {"dtype", "f32"}});
  fake.add("only_microbatch",
           {{"kind", "pack"},
            {"members", Json::array({Json::array({source, target})})},
            {"zero", Json::array()},
            {"free", Json::array()},
            {"loc", "m.py:5"},
            {"module_path", "a.b"}});
  expectRunError("pack (module 'a.b', m.py:5): expected a tensor of "
                 "shape [2, 3], got [3] in slot");
}

TEST_F(StepTest, WriteBuffer) {
  addLoss();
  fake.plan["buffers"].push_back({{"name", "running"},
                                  {"shape", Json::array({2})},
                                  {"dtype", "f32"},
                                  {"persistent", true},
                                  {"mutable", true}});
  size_t source = fake.slot({{"kind", "planned"},
                             {"buf", device(0, 8)},
                             {"shape", Json::array({2})},
                             {"dtype", "f32"}});
  fake.add("only_microbatch", {{"kind", "write_buffer"},
                               {"slot", source},
                               {"buffer", 1},
                               {"free", Json::array()}});
  load();
  backend->at<float>(0)[1] = 9;
  run();
  EXPECT_EQ(reinterpret_cast<float *>(step->buffer(1).data())[1], 9);
}

TEST_F(StepTest, LossScale) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  size_t scale = fake.slot({{"kind", "loss_scale"}});
  size_t sum = fake.slot({{"kind", "planned"},
                          {"buf", device(512, 4)},
                          {"shape", Json::array()},
                          {"dtype", "f32"}});
  fake.add("only_microbatch",
           {{"kind", "pack"},
            {"members", Json::array({Json::array({scale, sum})})}});
  fake.add("update", {{"kind", "unscale_gradients"}});
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 1.0}});
  load();
  float *shard = backend->at<float>(0), *grad = backend->at<float>(64);
  grad[1] = 3;
  run();
  EXPECT_EQ(*backend->at<float>(512), 1);
  EXPECT_EQ(grad[1], 3);
  step->setLossScale(1024, /*skipsOverflow=*/true);
  grad[1] = 3 * 1024;
  run();
  EXPECT_EQ(*backend->at<float>(512), 1024);
  EXPECT_EQ(grad[1], 3);
  EXPECT_EQ(shard[1], -3);
  EXPECT_FALSE(step->isSkipped());
  for (float wrong : {std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()}) {
    grad[2] = wrong;
    run();
    EXPECT_TRUE(step->isSkipped());
    EXPECT_EQ(shard[1], -3);
    EXPECT_EQ(shard[2], 0);
  }
  grad[1] = grad[2] = 0;
  run();
  EXPECT_FALSE(step->isSkipped());
  // A fixed scale skips nothing.
  step->setLossScale(1024, /*skipsOverflow=*/false);
  grad[2] = std::numeric_limits<float>::infinity();
  run();
  EXPECT_FALSE(step->isSkipped());
  EXPECT_EQ(shard[2], -std::numeric_limits<float>::infinity());
}

TEST_F(StepTest, LossWeight) {
  addLoss();
  fake.plan["loss_weight"] = "mask";
  fake.plan["inputs"].push_back(
      {{"name", "mask"}, {"shape", {2}}, {"dtype", "bool"}});
  size_t weight = fake.slot({{"kind", "loss_weight"}});
  size_t sum = fake.slot({{"kind", "planned"},
                          {"buf", device(512, 4)},
                          {"shape", Json::array()},
                          {"dtype", "f32"}});
  // The pack has an element more, which an operator has written in place.
  fake.add("only_microbatch",
           {{"kind", "pack"},
            {"members", Json::array({Json::array({weight, sum})})},
            {"whole", device(512, 8)}});
  load();
  float *packed = backend->at<float>(512);
  packed[1] = 7;
  EXPECT_EQ(run(), std::vector<double>{1});
  EXPECT_EQ(packed[0], 1);
  step->setLossWeight(0.25F);
  EXPECT_EQ(run(), std::vector<double>{1});
  EXPECT_EQ(packed[0], 0.25F);
  EXPECT_EQ(packed[1], 7);
  // Whatever the model computes.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(step->buffer(0).data(), &nan, sizeof(nan));
  packed[1] = nan;
  step->setLossWeight(0);
  EXPECT_EQ(run(), std::vector<double>{0});
  EXPECT_EQ(packed[0], 0);
  EXPECT_EQ(packed[1], 0);
  step->setLossWeight(2);
  EXPECT_TRUE(std::isnan(run()[0]));
  EXPECT_EQ(packed[0], 2);
}

TEST_F(StepTest, ClipGradients) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  fake.add(
      "update",
      {{"kind", "clip_gradients"}, {"max_norm", 1.0}, {"grad_scale", 0.5}});
  load();
  float *grad = backend->at<float>(64);
  // A norm of 10 * 0.5 is 5 times too much.
  grad[0] = 6, grad[3] = 8;
  run();
  EXPECT_FLOAT_EQ(grad[0], 6 / 5.f);
  EXPECT_FLOAT_EQ(grad[3], 8 / 5.f);
  // One that is small enough stays, bit for bit.
  grad[0] = 0.3f, grad[3] = 0.4f;
  run();
  EXPECT_EQ(grad[0], 0.3f);
  EXPECT_EQ(grad[3], 0.4f);
  grad[1] = std::numeric_limits<float>::quiet_NaN();
  run();
  EXPECT_TRUE(std::isnan(grad[0]));
}

// A norm is summed in blocks, without a copy of the gradient.
TEST_F(StepTest, ClipAGradientOfSeveralBlocks) {
  const int64_t elements = 6000, bytes = 4 * elements;
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  Json &bucket = fake.plan["buckets"][0];
  bucket["elements"] = bucket["shard_elements"] = elements;
  bucket["states"] = {test::state("shard", "f32", device(0, bytes)),
                      test::state("grad", "f32", device(bytes, bytes))};
  fake.add(
      "update",
      {{"kind", "clip_gradients"}, {"max_norm", 1.0}, {"grad_scale", 1.0}});
  load();
  const std::span<float> grad(backend->at<float>(bytes), elements);
  for (int64_t i = 0; i < elements; ++i)
    grad[i] = i % 2 ? 3 : -1;
  run();
  const float norm = std::sqrt(5.f * elements);
  EXPECT_FLOAT_EQ(grad[0], -1 / norm);
  EXPECT_FLOAT_EQ(grad[elements - 1], 3 / norm);
  // The first step allocates what later ones reuse.
  const Step::Memory first = step->memory();
  EXPECT_LT(first.devicePeakBytes, 65536u + 4096u);
  grad.back() = std::numeric_limits<float>::infinity();
  run();
  EXPECT_EQ(grad[0], 0);
  EXPECT_TRUE(std::isnan(grad.back()));
  EXPECT_EQ(step->memory().systemAllocations, first.systemAllocations);
}

TEST_F(StepTest, ClipGradientsByTheNormOverAllRanks) {
  fake.plan["nodes"] = fake.plan["ranks_per_node"] = 2;
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  fake.plan["buckets"][0]["elements"] = 16;
  fake.add(
      "update",
      {{"kind", "clip_gradients"}, {"max_norm", 1.0}, {"grad_scale", 1.0}});
  load();
  backend->numbersOfRanks = {9, 16, 36, 39}; // the norm is 10
  float *grad = backend->at<float>(64);
  grad[0] = 3;
  run();
  EXPECT_FLOAT_EQ(grad[0], 0.3F);
}

// With outer steps nodes train by themselves. Rank (n, l) of N nodes gives
// number l N + n.
TEST_F(StepTest, ClipGradientsByTheNormOverTheNode) {
  fake.plan["nodes"] = fake.plan["ranks_per_node"] = 2;
  fake.plan["outer"] = {{"every", 2},
                        {"lr", 1.0},
                        {"momentum", 0.0},
                        {"nesterov", false},
                        {"fragments", 1}};
  fake.setFunctions({"init", "only_microbatch", "update", "outer_update"});
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  Json &bucket = fake.plan["buckets"][0];
  bucket["elements"] = 8;
  bucket["sharding"] = "node";
  bucket["states"].push_back(test::state("outer", "f32", host(0, 16)));
  fake.add(
      "update",
      {{"kind", "clip_gradients"}, {"max_norm", 1.0}, {"grad_scale", 1.0}});
  object = std::make_unique<StepObject>(fake.build(folder));
  const StepPlan &plan = object->plan();
  for (uint32_t node : {0, 1}) {
    backend = std::make_unique<LocalBackend>(plan.deviceBytes, plan.hostBytes);
    step = std::make_unique<Step>(*object, *backend,
                                  StepSetup{.place = {node, 1}});
    backend->numbersOfRanks = {9, 100, 16, 300}; // norms of 5 and 20
    float *grad = backend->at<float>(64);
    grad[0] = 3;
    run();
    EXPECT_FLOAT_EQ(grad[0], node == 0 ? 3 / 5.F : 3 / 20.F);
  }
}

TEST_F(StepTest, QueuedOperationsReachTheBackend) {
  addLoss();
  addBucket("f32", 4, {"shard"});
  fake.add("init", {{"kind", "cache_store"},
                    {"bucket", 0},
                    {"stream", "d2h"},
                    {"in", device(0, 16)},
                    {"out", host(32, 16)}});
  fake.add("init", {{"kind", "cache_load"},
                    {"bucket", 0},
                    {"stream", "h2d"},
                    {"in", host(32, 16)},
                    {"out", device(256, 16)}});
  fake.add("init", {{"kind", "all_gather"},
                    {"bucket", 0},
                    {"axis", "local"},
                    {"stream", "intra"},
                    {"in", device(256, 16)},
                    {"out", device(512, 16)},
                    {"loc", "m.py:1"}});
  fake.add("init", {{"kind", "record"}, {"event", 3}, {"stream", "intra"}});
  fake.add("init", {{"kind", "wait"}, {"event", 3}, {"stream", "compute"}});
  load();
  backend->at<float>(0)[1] = 4;
  step->init();
  EXPECT_EQ(backend->at<float>(512)[1], 4);
  EXPECT_EQ(backend->copied.links[LinkId::D2H], 16u);
  EXPECT_EQ(backend->copied.links[LinkId::H2D], 16u);
  EXPECT_EQ(backend->what, "all-gather of bucket 'b' within the node (m.py:1)");
  EXPECT_EQ(backend->recorded, std::vector<uint32_t>{3});
  EXPECT_EQ(backend->waited, std::vector<uint32_t>{3});
}

} // namespace
