// SPDX-License-Identifier: Apache-2.0
#include "step/Step.h"
#include "plan/FakeStep.h"
#include "step/LocalBackend.h"
#include "step/StepObject.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// A step under construction, and running on one rank.
class StepTest : public ::testing::Test {
protected:
  void load() {
    object = std::make_unique<StepObject>(fake.build(folder));
    const StepPlan &m = object->plan();
    backend = std::make_unique<LocalBackend>(m.deviceBytes, m.hostBytes);
    step = std::make_unique<Step>(*object, *backend, StepSetup{});
  }

  /// One bucket of four elements with its states from byte 0 on.
  void addBucket(const std::string &storage, uint64_t bytes,
                 const std::vector<std::string> &states) {
    Json bucket = {
        {"name", "b"},        {"unit", "u"},         {"trainable", true},
        {"elements", 4},      {"shard_elements", 4}, {"storage", storage},
        {"wire", storage},    {"reduce", "f32"},     {"states", Json::array()},
        {"sharding", "world"}};
    uint64_t offset = 0;
    for (const std::string &state : states) {
      bool isGrad = state == "grad";
      bucket["states"].push_back(
          test::state(state, isGrad ? "f32" : storage,
                      device(offset, isGrad ? 16 : 4 * bytes)));
      offset += 64;
    }
    fake.plan["buckets"].push_back(bucket);
  }

  /// Runs a step whose loss is that of a constant buffer.
  std::vector<double> run() {
    step->run([](int64_t) {});
    return step->losses();
  }

  void addLoss() {
    Json buffer = {{"name", "one"},    {"shape", Json::array()},
                   {"dtype", "f32"},   {"persistent", false},
                   {"mutable", false}, {"constant_offset", 0}};
    fake.plan["buffers"].push_back(buffer);
    fake.constants = {0, 0, 0x80, 0x3f}; // 1.0f
    size_t slot = fake.slot({{"kind", "buffer"}, {"index", 0}});
    fake.add("only_microbatch",
             {{"kind", "loss"}, {"slot", slot}, {"free", Json::array()}});
  }

  void expectLoadError(const std::string &message) {
    try {
      load();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  void expectRunError(const std::string &message) {
    load();
    try {
      run();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  TemporaryFolder folder;
  FakeStep fake;
  std::unique_ptr<StepObject> object;
  std::unique_ptr<LocalBackend> backend;
  std::unique_ptr<Step> step;
};

TEST_F(StepTest, ConstantsAndLoss) {
  addLoss();
  load();
  EXPECT_EQ(run(), std::vector<double>{1.0});
}

TEST_F(StepTest, LossesAreReadLater) {
  addLoss();
  load();
  auto runWith = [&](float value) {
    std::memcpy(step->buffer(0).data(), &value, sizeof(value));
    step->run([](int64_t) {});
  };
  runWith(2);
  runWith(3);
  EXPECT_EQ(step->losses(), std::vector<double>{2.0});
  runWith(4);
  EXPECT_EQ(step->losses(), std::vector<double>{3.0});
  EXPECT_EQ(step->losses(), std::vector<double>{4.0});
}

TEST_F(StepTest, NoMoreStepsAreUnreadThanThereIsRoomFor) {
  addLoss();
  load();
  auto expectError = [](const std::string &message, auto act) {
    try {
      act();
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(error.what(), message);
    }
  };
  expectError("the losses of all steps have been read",
              [&] { step->losses(); });
  step->run([](int64_t) {});
  step->run([](int64_t) {});
  expectError("the losses of 2 steps are not read: read those of the oldest "
              "before another step",
              [&] { step->run([](int64_t) {}); });
}

TEST_F(StepTest, WithoutALossIsAnError) {
  expectRunError("expected one loss per micro-batch, 1, got 0");
}

TEST_F(StepTest, MoreLossesThanMicroBatchesAreAnError) {
  addLoss();
  addLoss();
  expectRunError("expected one loss per micro-batch, 1, got more");
}

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

TEST_F(StepTest, Sgd) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 0.25}});
  load();
  backend->at<float>(0)[1] = 10;
  backend->at<float>(64)[1] = 8;
  run();
  EXPECT_FLOAT_EQ(backend->at<float>(0)[1], 10 - 0.5 * 8 * 0.25);
  EXPECT_EQ(backend->at<float>(0)[0], 0);
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

TEST_F(StepTest, SgdMomentumStartsFromTheFirstGradient) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad", "momentum_buffer"});
  fake.plan["optimizer"]["momentum"] = 0.9;
  fake.plan["optimizer"]["dampening"] = 0.5;
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 1.0}});
  load();
  backend->at<float>(64)[0] = 2;
  run();
  // Dampening does not apply to the first step.
  EXPECT_FLOAT_EQ(backend->at<float>(0)[0], -1);
  backend->at<float>(64)[0] = 2;
  run();
  EXPECT_FLOAT_EQ(backend->at<float>(0)[0], -1 - 0.5 * (0.9 * 2 + 0.5 * 2));
}

Json adamw() {
  return {{"kind", "adamw"}, {"lr", 0.1},   {"beta1", 0.9},
          {"beta2", 0.999},  {"eps", 1e-8}, {"weight_decay", 0.01}};
}

TEST_F(StepTest, AdamWCountsItsSteps) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad", "exp_avg", "exp_avg_sq"});
  fake.plan["optimizer"] = adamw();
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 0.5}});
  load();
  double p = 1, m = 0, v = 0;
  backend->at<float>(0)[3] = 1;
  for (int t = 1; t <= 3; ++t) {
    backend->at<float>(64)[3] = 4 * t;
    run();
    double g = 2 * t;
    p *= 1 - 0.1 * 0.01;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p -= 0.1 * (m / (1 - std::pow(0.9, t))) /
         (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    EXPECT_NEAR(backend->at<float>(0)[3], p, 1e-6) << t;
  }
}

TEST_F(StepTest, AdamWOnBfloat16) {
  addLoss();
  addBucket("bf16", 2, {"shard", "grad", "exp_avg", "exp_avg_sq"});
  fake.plan["optimizer"] = adamw();
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 1.0}});
  load();
  backend->at<uint16_t>(0)[0] = 0x3f80; // 1.0
  backend->at<float>(64)[0] = 5;
  run();
  // About 1 - lr - lr * decay = 0.899 in bf16.
  EXPECT_EQ(backend->at<uint16_t>(0)[0], 0x3f66);
  uint64_t first = step->memory().systemAllocations;
  EXPECT_GT(first, 0u); // the gradient in bf16 among them
  run();
  EXPECT_EQ(step->memory().systemAllocations, first);
}

Json lion() {
  return {{"kind", "lion"},
          {"lr", 0.1},
          {"beta1", 0.9},
          {"beta2", 0.99},
          {"weight_decay", 0.5}};
}

TEST_F(StepTest, LionMovesByTheSignOfTheMixedMoment) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad", "exp_avg"});
  fake.plan["optimizer"] = lion();
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 0.5}});
  load();
  float *parameter = backend->at<float>(0), *grad = backend->at<float>(64);
  const float *moment = backend->at<float>(128);
  double p = 1, m = 0;
  parameter[3] = 1;
  // The second gradient is too small to turn 0.9 m + 0.1 g, the third is not.
  for (double g : {4.0, -0.3, -0.5, 0.0}) {
    grad[3] = static_cast<float>(2 * g);
    run();
    double c = 0.9 * m + 0.1 * g;
    p = p * (1 - 0.1 * 0.5) - 0.1 * ((c > 0) - (c < 0));
    m = 0.99 * m + 0.01 * g;
    EXPECT_NEAR(parameter[3], p, 1e-6) << g;
    EXPECT_NEAR(moment[3], m, 1e-7) << g;
  }
  // No gradient, no step.
  EXPECT_EQ(parameter[0], 0);
  EXPECT_EQ(moment[0], 0);
}

TEST_F(StepTest, LionOnBfloat16) {
  addLoss();
  addBucket("bf16", 2, {"shard", "grad", "exp_avg"});
  fake.plan["optimizer"] = lion();
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 1.0}});
  load();
  backend->at<uint16_t>(0)[0] = 0x3f80; // 1.0
  backend->at<float>(64)[0] = -5;
  run();
  // 1 - lr * decay + lr = 1.05 is rounded once, to 1.046875.
  EXPECT_EQ(backend->at<uint16_t>(0)[0], 0x3f86);
  EXPECT_EQ(backend->at<uint16_t>(128)[0], 0xbd4d); // -0.05
  EXPECT_EQ(backend->at<uint16_t>(0)[1], 0);
}

Json muon() {
  return {{"kind", "muon"},
          {"lr", 0.1},
          {"weight_decay", 0.5},
          {"momentum", 0.75},
          {"ns_a", 1.5},
          {"ns_b", -0.5},
          {"nesterov", true},
          {"ns_c", 0},
          {"eps", 1e-7},
          {"ns_steps", 1},
          {"adjust_lr_fn", "original"}};
}

/// A parameter of the bucket that addBucket makes.
Json parameter(const std::string &name, std::vector<int> shape, int offset) {
  return {{"names", {name}},   {"shape", shape}, {"dtype", "f32"},
          {"trainable", true}, {"bucket", 0},    {"offset_elements", offset}};
}

TEST_F(StepTest, MuonMovesByTheOrthogonalizedMomentum) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad", "momentum_buffer"});
  fake.plan["parameters"] = {parameter("w", {3, 1}, 0)};
  fake.plan["optimizer"] = muon();
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 0.5}});
  load();
  float *parameter = backend->at<float>(0), *grad = backend->at<float>(64);
  const float *momentum = backend->at<float>(128);
  double p = 1, m = 0;
  parameter[0] = parameter[3] = 1;
  for (double g : {4.0, -2.0, 0.0}) {
    grad[0] = static_cast<float>(2 * g);
    grad[3] = 1; // padding
    run();
    m = m + 0.25 * (g - m);
    double direction = g + 0.75 * (m - g);
    // A column's norm is its one singular value: x (1.5 - 0.5 x^2) keeps 1.
    double sign = (direction > 0) - (direction < 0);
    p = p * (1 - 0.1 * 0.5) - 0.1 * std::sqrt(3) * sign;
    EXPECT_NEAR(parameter[0], p, 1e-6) << g;
    EXPECT_NEAR(momentum[0], m, 1e-7) << g;
  }
  EXPECT_EQ(parameter[1], 0);
  EXPECT_EQ(parameter[3], 1);
  EXPECT_EQ(momentum[3], 0);
}

/// A matrix of one element, whose squares take 64 bytes each.
void addSoap(FakeStep &fake, int frequency) {
  Json &bucket = fake.plan["buckets"][0];
  bucket["max_side"] = 1;
  for (size_t i = 4; i < bucket["states"].size(); ++i)
    bucket["states"][i]["buf"]["bytes"] = 64;
  fake.plan["parameters"] = {parameter("w", {1, 1}, 0)};
  fake.plan["optimizer"] = {{"kind", "soap"},
                            {"lr", 0.1},
                            {"beta1", 0.5},
                            {"beta2", 0.75},
                            {"shampoo_beta", -1.0},
                            {"eps", 0.25},
                            {"weight_decay", 0.5},
                            {"max_precond_dim", 1},
                            {"precondition_frequency", frequency}};
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 0.5}});
}

const std::vector<std::string> kSoapStates = {"shard",      "grad",   "exp_avg",
                                              "exp_avg_sq", "row_gg", "col_gg",
                                              "row_q",      "col_q"};

TEST_F(StepTest, SoapMakesItsBasesFirst) {
  addLoss();
  addBucket("f32", 4, kSoapStates);
  addSoap(fake, 2);
  load();
  float *parameter = backend->at<float>(0), *grad = backend->at<float>(64);
  const float *average = backend->at<float>(256),
              *row = backend->at<float>(384), *column = backend->at<float>(448);
  double p = 1, m = 0, v = 0, gg = 0;
  parameter[0] = parameter[3] = 1;
  int update = 0;
  for (double g : {4.0, -2.0, 1.0, 0.0, 3.0}) {
    grad[0] = static_cast<float>(2 * g);
    run();
    if (update > 0) {
      m = 0.5 * m + 0.5 * g;
      v = 0.75 * v + 0.25 * g * g;
      double size =
          std::sqrt(1 - std::pow(0.75, update)) / (1 - std::pow(0.5, update));
      p -= 0.1 * size * m / (std::sqrt(v) + 0.25);
      p *= 1 - 0.1 * 0.5;
    }
    ++update;
    gg = 0.75 * gg + 0.25 * g * g;
    EXPECT_NEAR(parameter[0], p, 1e-6) << update;
    EXPECT_NEAR(average[0], gg, 1e-6) << update;
    // The moment is in the bases, whose signs are free.
    EXPECT_NEAR(backend->at<float>(128)[0] * row[0] * column[0], m, 1e-6);
    EXPECT_NEAR(std::abs(row[0]), 1, 1e-6);
  }
  EXPECT_EQ(parameter[3], 1);
}

TEST_F(StepTest, SoapWithoutAFrequency) {
  addLoss();
  addBucket("f32", 4, kSoapStates);
  addSoap(fake, 0);
  try {
    load();
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what())
                  .find("soap: expected 'precondition_frequency' from 1 on"),
              std::string::npos)
        << error.what();
  }
}

/// A bucket of one block of 256 elements, whose moments are in 8 bits.
void addBlocks(FakeStep &fake) {
  Json bucket = {
      {"name", "b"},        {"unit", "u"},           {"trainable", true},
      {"elements", 256},    {"shard_elements", 256}, {"storage", "f32"},
      {"wire", "f32"},      {"reduce", "f32"},       {"states", Json::array()},
      {"sharding", "world"}};
  uint64_t offset = 0;
  for (auto [role, dtype, bytes] :
       {std::tuple("shard", "f32", 1024), std::tuple("grad", "f32", 1024),
        std::tuple("exp_avg_code", "u8", 256),
        std::tuple("exp_avg_scale", "f32", 4),
        std::tuple("exp_avg_sq_code", "u8", 256),
        std::tuple("exp_avg_sq_scale", "f32", 4)}) {
    bucket["states"].push_back(
        test::state(role, dtype, device(offset, uint64_t(bytes))));
    offset += 1024;
  }
  fake.plan["buckets"].push_back(bucket);
}

TEST_F(StepTest, AdamWKeepsMomentsInEightBits) {
  addLoss();
  addBlocks(fake);
  fake.plan["optimizer"] = adamw();
  fake.plan["optimizer"]["kind"] = "adamw8bit";
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 0.5}});
  load();
  float *parameter = backend->at<float>(0), *grad = backend->at<float>(1024);
  const uint8_t *code = backend->at<uint8_t>(2048);
  const float *scale = backend->at<float>(3072);
  const float *squareScale = backend->at<float>(5120);
  parameter[3] = 1;
  double p = 1, m = 0, v = 0;
  for (int t = 1; t <= 3; ++t) {
    // The greatest of its block, which a scale has exactly.
    grad[3] = static_cast<float>(4 * t);
    grad[4] = static_cast<float>(-t);
    run();
    double g = 2 * t;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p *= 1 - 0.1 * 0.01;
    p -= 0.1 * (m / (1 - std::pow(0.9, t))) /
         (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    EXPECT_NEAR(parameter[3], p, 1e-5) << t;
    EXPECT_NEAR(*scale, m, 1e-6) << t;
    EXPECT_NEAR(*squareScale, v, 1e-6) << t;
    EXPECT_EQ(code[3], 255);
    EXPECT_LT(code[4], 127); // below zero
  }
  // No gradient, no step.
  EXPECT_EQ(parameter[0], 0);
}

TEST_F(StepTest, AnUpdateMayHaveAnOptimizerOfItsOwn) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  fake.add("update", {{"kind", "shard_update"},
                      {"bucket", 0},
                      {"grad_scale", 1.0},
                      {"optimizer_type", "sgd"},
                      {"optimizer", {{"lr", 0.125}, {"weight_decay", 2.0}}}});
  load();
  float *parameter = backend->at<float>(0), *grad = backend->at<float>(64);
  parameter[0] = 1, grad[0] = 6;
  run();
  EXPECT_EQ(parameter[0], 1 - 0.125f * (6 + 2));
  // The plan's rate is 0.5, with which its own stays in proportion.
  step->setLearningRate(0.25);
  parameter[0] = 1, grad[0] = 6;
  run();
  EXPECT_EQ(parameter[0], 1 - 0.0625f * (6 + 2));
}

TEST_F(StepTest, AMasterIsUpdatedAndRounded) {
  addLoss();
  addBucket("bf16", 2, {"shard", "grad"});
  Json &states = fake.plan["buckets"][0]["states"];
  states.push_back(test::state("master", "f32", device(128, 16)));
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 1.0}});
  load();
  backend->at<float>(128)[1] = 1;
  backend->at<uint16_t>(0)[1] = 0x3f80; // 1.0
  // Less than what bf16 has below 1, twice.
  for (float expected : {1 - 0x1p-9F, 1 - 0x1p-8F}) {
    backend->at<float>(64)[1] = 0x1p-8F;
    run();
    EXPECT_EQ(backend->at<float>(128)[1], expected);
  }
  EXPECT_EQ(backend->at<uint16_t>(0)[1], 0x3f7f);
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

TEST_F(StepTest, FailureOfTheBackendIsReported) {
  addLoss();
  load();
  backend->error = "all-gather of bucket 'b': rank 1 is gone";
  EXPECT_THROW(run(), std::runtime_error);
}

TEST_F(StepTest, AnOperationIsNamedOnce) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad"});
  fake.add(
      "update",
      {{"kind", "clip_gradients"}, {"max_norm", 1.0}, {"grad_scale", 1.0}});
  load();
  // As the backends' collectives do.
  backend->sumError = ": rank 1 is gone";
  try {
    run();
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "clip gradients: rank 1 is gone");
  }
}

TEST_F(StepTest, FirstErrorStays) {
  size_t empty = fake.transient();
  for (const char *callee : {"aten::neg", "aten::abs"})
    fake.add(
        "only_microbatch",
        {{"kind", "aten_call"},
         {"callee", callee},
         {"overload", ""},
         {"args", Json::array({Json::array({"self", Json{{"t", empty}}})})},
         {"results", Json::array({-1})},
         {"loc", "model.py:12"},
         {"module_path", "blocks.0"}});
  expectRunError("aten::neg (module 'blocks.0', model.py:12): slot "
                 "0 holds no tensor");
}

TEST_F(StepTest, UnknownOperatorIsNamedAtLoad) {
  fake.add("only_microbatch", {{"kind", "aten_call"},
                               {"callee", "custom::op"},
                               {"overload", ""},
                               {"args", Json::array()},
                               {"results", Json::array()},
                               {"loc", "model.py:4"},
                               {"module_path", "head"}});
  expectLoadError("step.so: custom::op (module 'head', model.py:4): this "
                  "libtorch has no operator 'custom::op'");
}

TEST_F(StepTest, OtherAbi) {
  fake.abi = 1;
  expectLoadError("step.so: expected ABI version " +
                  std::to_string(FCDP_ABI_VERSION) + ", got 1");
}

TEST_F(StepTest, NoSharedObject) {
  EXPECT_THROW(StepObject(folder.file("missing.so")), std::runtime_error);
  EXPECT_THROW(StepObject("/proc/self/exe"), std::runtime_error);
}

TEST_F(StepTest, EveryByteOfTheObjectIsChecked) {
  std::string path = fake.build(folder);
  std::string good = [&] {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  auto expectRefused = [&](const std::string &bytes, size_t at) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      StepObject loaded(path);
      ADD_FAILURE() << "byte " << at;
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(std::string(error.what()).find(path + ": "), 0u)
          << error.what();
    }
  };
  // Headers, code, symbols, data and checksum, at each place another bit.
  size_t tried = 0;
  for (size_t at = 0; at < good.size(); at += at < 64 ? 1 : 61, ++tried) {
    std::string bad = good;
    bad[at] ^= char(1 << tried % 8);
    expectRefused(bad, at);
  }
  for (size_t size : {size_t(0), size_t(3), size_t(100), good.size() / 2,
                      good.size() - 48, good.size() - 1})
    expectRefused(good.substr(0, size), size);
  std::ofstream(path, std::ios::binary) << good;
  EXPECT_EQ(StepObject(path).hash().size(), 40u);
}

TEST_F(StepTest, AnObjectThatIsCutLaterIsStillWhole) {
  fake.constants.assign(1 << 16, 'c');
  std::string path = fake.build(folder);
  StepObject loaded(path);
  std::filesystem::resize_file(path, 0);
  ASSERT_EQ(loaded.constants().size(), fake.constants.size());
  for (std::byte byte : loaded.constants())
    ASSERT_EQ(byte, std::byte('c'));
}

TEST_F(StepTest, DevicePeakIsArenaPoolAndBuffers) {
  addLoss();
  load();
  run();
  // The arena, and a buffer of one f32.
  EXPECT_EQ(step->memory().devicePeakBytes, 65536u + 4u);
}

} // namespace
