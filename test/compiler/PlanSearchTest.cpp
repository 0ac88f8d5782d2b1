// SPDX-License-Identifier: Apache-2.0
//
// Counts what the search of strategy `auto` does, as instrumentation sees it.

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Transforms/Pipeline.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <map>

using namespace mlir;
using namespace fcdp;

namespace {
/// Two layers of one parameter each.
constexpr const char *kStep = R"(
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<1048576xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<1048576xf32> unit "b" trainable names ["b"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<1048576xf32>
    %b = fcdp.read_parameter @b : tensor<1048576xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<1048576xf32>) -> tensor<1048576xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %b) : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %b) : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
    %3 = aten.call "aten.mul.Tensor"(self = %2, other = %a) : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<1048576xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %2 of @b : tensor<1048576xf32>
    fcdp.gradient %3 of @a : tensor<1048576xf32>
    return
  }
})";

Cluster makeCluster() {
  Cluster cluster;
  cluster.nodes = cluster.ranksPerNode = 2;
  cluster.device.memory = cluster.host.memory = 4'000'000'000;
  cluster.device.memoryBandwidth = 1e11;
  cluster.device.flops = {1e12, 1e12, 1e12, 1e12};
  cluster.device.computeEfficiency = cluster.device.memoryEfficiency = 0.5;
  cluster.links[LinkId::Inter] = {1e9, 1e-5, Sharing::node, 0};
  cluster.links[LinkId::Intra] = {1e10, 1e-5, Sharing::rank, 0};
  cluster.links[LinkId::H2D] =
      cluster.links[LinkId::D2H] = {1e10, 1e-5, Sharing::node, 0};
  return cluster;
}

/// Counts analyses by their names.
struct Counter : PassInstrumentation {
  explicit Counter(std::map<std::string, int> &counts) : counts(counts) {}
  void runBeforeAnalysis(StringRef name, TypeID, Operation *) override {
    ++counts[name.str()];
  }
  std::map<std::string, int> &counts;
};
} // namespace

TEST(PlanSearch, SchedulesEachCandidateOnce) {
  MLIRContext context;
  context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> step = parseSourceString<ModuleOp>(kStep, &context);
  ASSERT_TRUE(step);
  PipelineOptions options;
  options.strategy = "auto";
  options.nodes = options.ranksPerNode = 2;
  options.microBatches = 2;
  PassManager pm(&context);
  buildFcdpPipeline(pm, options, Phase::imported, makeCluster());
  std::map<std::string, int> counts;
  pm.addInstrumentation(std::make_unique<Counter>(counts));
  ASSERT_TRUE(succeeded(pm.run(*step)));
  EXPECT_GE(counts["search of residencies"], 1);
  EXPECT_GT(counts["simulation of candidates"], 4);
  // The fastest are not scheduled again to plan their memory.
  EXPECT_EQ(counts["schedule of candidates"],
            counts["simulation of candidates"]);
  EXPECT_GE(counts["memory of candidates"], 1);
  EXPECT_LE(counts["memory of candidates"], counts["simulation of candidates"]);
}
