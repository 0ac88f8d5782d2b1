// SPDX-License-Identifier: Apache-2.0
//
// Updates by each optimizer.
#include "plan/PlanEdits.h"
#include "step/StepFixture.h"

#include <cmath>

using namespace fcdp;
using namespace fcdp::test;

namespace {

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

/// The scratch memory of a matrix of 3 x 1: two copies of it, two of its
/// product with itself, and a number, at multiples of 64 bytes.
TEST_F(StepTest, ThePlanHasAPlaceForScratchMemory) {
  addLoss();
  addBucket("f32", 4, {"shard", "grad", "momentum_buffer"});
  fake.plan["parameters"] = {parameter("w", {3, 1}, 0)};
  fake.plan["optimizer"] = muon();
  fake.plan["state_bytes"] = 4096;
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 1.0}});
  Json &function = fake.plan["functions"].back();
  constexpr uint64_t bytes = 5 * 64, tag = 64;
  function["results"] =
      Json::array({result(function["first"], 4096, bytes + tag)});
  load();
  step.reset();
  object.reset(); // or the loader would find it instead of the next one
  function["results"] = Json::array({result(function["first"], 4096, bytes)});
  expectLoadError("expected a planned place of 384 bytes for the optimizer's "
                  "scratch memory, got one of 320");
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

} // namespace
