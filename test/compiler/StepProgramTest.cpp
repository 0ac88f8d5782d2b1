// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/StepProgram.h"

#include "dialects/Aten/Aten.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The first micro-batch gathers for the last one.
constexpr const char *kCrossing = R"(
module attributes {fcdp.phase = #fcdp.phase<scheduled>, fcdp.micro_batches = 2 : i64} {
  fcdp.mesh @world(node = 1, local = 2)
  fcdp.parameter @w : tensor<64xf32> unit "" names ["w"]
  fcdp.input @x : tensor<64xf32> name "x"
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<32xf32>
  fcdp.state @b.prefetched prefetched of @b in device : tensor<64xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @first_microbatch() -> !fcdp.token attributes {fcdp.role = #fcdp.role<first_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %s = fcdp.read_shard @b : tensor<32xf32>
    %t0 = fcdp.record on compute
    fcdp.wait %t0 on intra
    %copy = fcdp.all_gather %s of @b over @world[local] range 0 into @b.prefetched on intra : tensor<32xf32> to tensor<64xf32>
    fcdp.release %copy on intra : tensor<64xf32>
    %t1 = fcdp.record on intra
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return %t1 : !fcdp.token
  }
  func.func @next_microbatch(%t0: !fcdp.token) -> !fcdp.token attributes {fcdp.role = #fcdp.role<next_microbatch>} {
    %t1 = fcdp.record on intra
    return %t1 : !fcdp.token
  }
  func.func @last_microbatch(%t0: !fcdp.token) attributes {fcdp.role = #fcdp.role<last_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %copy = fcdp.read_state @b.prefetched : tensor<64xf32>
    fcdp.wait %t0 on compute
    %w = fcdp.view_member %copy @w of @b : tensor<64xf32> to tensor<64xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
})";

Cost costOf(Operation *op) {
  if (isa<AllGatherOp>(op))
    return {Resource::intra, 0, 5};
  if (isa<aten::CallOp>(op))
    return {Resource::compute, 0, 1};
  return {};
}
} // namespace

TEST(StepProgram, TokensCrossTheEndsOfFunctions) {
  MLIRContext context;
  context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(kCrossing, &context);
  ASSERT_TRUE(module);
  StepTimes times = simulateStep(makeStepProgram(*module, costOf));
  // One of the gather's five seconds overlaps with the first micro-batch.
  EXPECT_DOUBLE_EQ(times.seconds, 6);
  EXPECT_DOUBLE_EQ(times.exposed[static_cast<unsigned>(Activity::intraGather)],
                   4);
}

/// Adds two outer updates of one second each, which run once in `every` steps.
static std::string withOuterUpdates(int every) {
  std::string text = kCrossing;
  text.erase(text.rfind('}'));
  for (int fragment : {0, 1})
    text += "func.func @outer_update." + std::to_string(fragment) +
            "(%x: tensor<64xf32>) attributes {fcdp.role = "
            "#fcdp.role<outer_update>, fcdp.variant = " +
            std::to_string(fragment) +
            "} { %0 = aten.call \"aten.neg.default\"(self = %x) : "
            "(tensor<64xf32>) -> tensor<64xf32>\n return }\n";
  text += "}";
  std::string outer = "module attributes {fcdp.outer = #fcdp.outer<every = " +
                      std::to_string(every) +
                      ", lr = 1.0, momentum = 0.0, nesterov = false, "
                      "fragments = 2>, ";
  std::string head = "module attributes {";
  text.replace(text.find(head), head.size(), outer);
  return text;
}

TEST(StepProgram, AStepHasItsShareOfOuterUpdates) {
  MLIRContext context;
  context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  for (int every : {2, 8}) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(withOuterUpdates(every), &context);
    ASSERT_TRUE(module);
    StepTimes times = simulateStep(makeStepProgram(*module, costOf));
    EXPECT_DOUBLE_EQ(times.occasionalSeconds, 2.0 / every);
    EXPECT_DOUBLE_EQ(times.seconds, 6 + 2.0 / every);
    // Two operators of a second, and the share of two more.
    EXPECT_DOUBLE_EQ(times.busy[static_cast<unsigned>(Activity::compute)],
                     2 + 2.0 / every);
  }
}
