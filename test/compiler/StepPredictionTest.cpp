// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/StepPrediction.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Cluster/OperatorCost.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace fcdp;

namespace {
/// Each product has 1024 operations.
constexpr const char *kScheduled = R"(
module attributes {fcdp.phase = #fcdp.phase<scheduled>} {
  fcdp.mesh @world(node = 2, local = 1)
  fcdp.parameter @w : tensor<8x8xf32> unit "" names ["w"]
  fcdp.input @mask : tensor<4xi1> name "mask"
  fcdp.input @x : tensor<8x8xf32> name "x"
  fcdp.input @ids : tensor<4x4xi64> name "ids"
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<32xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<8x8xf32>
    %s = fcdp.read_shard @b : tensor<32xf32>
    %whole = fcdp.all_gather %s of @b over @world[node] range 0 on inter : tensor<32xf32> to tensor<64xf32>
    %t = fcdp.record on inter
    fcdp.wait %t on compute
    %w = fcdp.view_member %whole @w of @b : tensor<64xf32> to tensor<8x8xf32>
    %0 = aten.call "aten.mm.default"(self = %x, mat2 = %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = aten.call "aten.mm.default"(self = %x, mat2 = %w) {fcdp.repeated} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    fcdp.release %whole : tensor<64xf32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
})";

/// A product takes half a second, and the gather of 128 bytes from the other
/// rank two seconds. Memory traffic takes almost no time.
Cluster makeCluster() {
  Cluster cluster;
  cluster.name = "slow";
  cluster.nodes = 2;
  cluster.ranksPerNode = 1;
  cluster.device.memory = 1 << 20;
  cluster.device.memoryBandwidth = 1e30;
  cluster.device.flops = {2048, 2048, 2048, 2048};
  cluster.device.computeEfficiency = cluster.device.memoryEfficiency = 1;
  cluster.host.memory = 1 << 20;
  cluster.links[LinkId::Inter] = {64, 0, Sharing::rank, 0};
  cluster.links[LinkId::Intra] = cluster.links[LinkId::H2D] =
      cluster.links[LinkId::D2H] = cluster.links[LinkId::Inter];
  return cluster;
}

class StepPredictionTest : public testing::Test {
protected:
  StepPredictionTest() {
    context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(kScheduled, &context);
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

double of(const std::array<double, kNumActivities> &seconds,
          Activity activity) {
  return seconds[static_cast<unsigned>(activity)];
}
} // namespace

TEST_F(StepPredictionTest, TimeIsComputeExposedAndBubble) {
  // The next step's gather begins when this one's ends, so its link is always
  // busy, and compute waits for it for a second.
  SimulatedStep step = simulateOn(*module, makeCluster());
  const StepPrediction &prediction = step.prediction;
  EXPECT_NEAR(prediction.times.seconds, 2, 1e-9);
  EXPECT_NEAR(of(prediction.times.onCompute, Activity::compute), 1, 1e-9);
  EXPECT_NEAR(of(prediction.times.exposed, Activity::interGather), 1, 1e-9);
  EXPECT_NEAR(prediction.getExposedInter(), 1, 1e-9);
  EXPECT_EQ(prediction.bubble, 0);
}

TEST_F(StepPredictionTest, TheTraceIsOfOneStep) {
  EXPECT_TRUE(simulateOn(*module, makeCluster()).trace.empty());
  SimulatedStep step = simulateOn(*module, makeCluster(), /*isTraced=*/true);
  ASSERT_EQ(step.trace.size(), 3u);
  EXPECT_NEAR(step.trace[0].begin, -1, 1e-9);
  EXPECT_NEAR(step.trace[0].end, 1, 1e-9);
  EXPECT_NEAR(step.trace[2].end, 2, 1e-9);
  for (const TimedWork &work : step.trace)
    EXPECT_EQ(work.function, 0u);
}

TEST_F(StepPredictionTest, ScenariosSimulateTheStepAgain) {
  Cluster cluster = makeCluster();
  cluster.spread.inputs.fill(0);
  auto products = static_cast<unsigned>(CostInput::products);
  auto inter = static_cast<unsigned>(CostInput::inter);
  auto copies = static_cast<unsigned>(CostInput::copies);
  cluster.spread.inputs[products] = std::log(4);
  cluster.spread.inputs[inter] = std::log(4);
  cluster.spread.inputs[copies] = std::log(4);
  SimulatedStep step = simulateOn(*module, cluster);
  EXPECT_FALSE(step.prediction.scenarios);
  addScenarios(step, cluster);
  // The longer counts of products of 1 s and a gather of 2 s.
  const ScenarioTimes &times = *step.prediction.scenarios;
  EXPECT_NEAR(times.slower[products], 4, 1e-9);
  EXPECT_NEAR(times.faster[products], 2, 1e-9);
  EXPECT_NEAR(times.slower[inter], 8, 1e-9);
  EXPECT_NEAR(times.faster[inter], 1, 1e-9);
  // Nothing is copied.
  EXPECT_EQ(times.slower[copies], times.nominal);
  EXPECT_NEAR(findMean(times), 2 + (4 + 2) / 2. - 2 + (8 + 1) / 2. - 2, 1e-9);
}

TEST_F(StepPredictionTest, TheHostsIssueIsAScenario) {
  Cluster cluster = makeCluster();
  cluster.spread.inputs.fill(0);
  auto issue = static_cast<unsigned>(CostInput::issue);
  cluster.spread.inputs[issue] = std::log(2);
  cluster.host.issue.op = 4;
  SimulatedStep step = simulateOn(*module, cluster);
  addScenarios(step, cluster);
  const ScenarioTimes &times = *step.prediction.scenarios;
  cluster.host.issue.op = 8;
  EXPECT_NEAR(times.slower[issue],
              simulateOn(*module, cluster).prediction.times.seconds, 1e-9);
  EXPECT_GT(times.slower[issue], times.nominal);
}

TEST_F(StepPredictionTest, WhatRunsAgainIsNotTheModels) {
  SimulatedStep step = simulateOn(*module, makeCluster());
  EXPECT_EQ(step.prediction.model.count, 1024);
  EXPECT_EQ(step.prediction.executed.count, 2048);
  EXPECT_NEAR(step.prediction.getMfu(), 0.25, 1e-9);
  EXPECT_NEAR(step.prediction.getHfu(), 0.5, 1e-9);
}

TEST_F(StepPredictionTest, TokensAreTheFirstIntegersThatAreNoMask) {
  SimulatedStep step = simulateOn(*module, makeCluster());
  EXPECT_EQ(step.prediction.tokens.input, "ids");
  EXPECT_EQ(step.prediction.tokens.perMicroBatch, 16);
  EXPECT_EQ(step.prediction.tokens.perStep, 32u);
  EXPECT_NEAR(step.prediction.getTokensPerSecond(), 16, 1e-9);
}

TEST_F(StepPredictionTest, FlopsThatAttentionRepeatsAreNotTheModels) {
  OwningOpRef<ModuleOp> call = parseSourceString<ModuleOp>(R"(
    func.func @f(%g: tensor<1x1x8x8xf32>, %l: tensor<1x1x8xf32>) {
      %0:3 = aten.call "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"(grad_out = %g, query = %g, key = %g, value = %g, out = %g, logsumexp = %l, dropout_p = 0.0, is_causal = false) : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8xf32>) -> (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>)
      return
    })",
                                                           &context);
  ASSERT_TRUE(call);
  call->walk([](aten::CallOp op) {
    OperatorWork work = measureWork(op);
    EXPECT_EQ(work.flops, 5 * 1024);
    EXPECT_EQ(work.repeatedFlops, 1024);
  });
}
