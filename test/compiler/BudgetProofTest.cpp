// SPDX-License-Identifier: Apache-2.0
//
// Places of operator results that are wrong in one way each. The planner makes
// no such places, so they are written by hand.

#include "dialects/Aten/Aten.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Transforms/Passes.h"
#include "fcdp/Verification/PlanProofs.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The gathered copy is in use until the second product. The view keeps the
/// first product in use beside the second one and the sum.
constexpr const char *kScheduled = R"(
module attributes {fcdp.phase = #fcdp.phase<scheduled>} {
  fcdp.mesh @world(node = 2, local = 1)
  fcdp.parameter @w : tensor<64xf32> unit "" names ["w"]
  fcdp.input @x : tensor<64xf32> name "x"
  fcdp.buffer @running : tensor<4096xf32> name "running" mutable
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<32xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %s = fcdp.read_shard @b : tensor<32xf32>
    %whole = fcdp.all_gather %s of @b over @world[node] range 0 on inter : tensor<32xf32> to tensor<64xf32>
    %t0 = fcdp.record on inter
    fcdp.wait %t0 on compute
    %w = fcdp.view_member %whole @w of @b : tensor<64xf32> to tensor<64xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %v = aten.call "aten.view.default"(self = %0, size = [8, 8]) : (tensor<64xf32>) -> tensor<8x8xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.release %whole : tensor<64xf32>
    %2 = aten.call "aten.sum.default"(self = %1) : (tensor<64xf32>) -> tensor<f32>
    %3 = aten.call "aten.sum.default"(self = %v) : (tensor<8x8xf32>) -> tensor<f32>
    %l = aten.call "aten.mul.Tensor"(self = %2, other = %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
})";

/// The offset of the copy, which follows the shard.
constexpr int64_t kCopy = 256;

class BudgetProofTest : public testing::Test {
protected:
  BudgetProofTest() {
    context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(kScheduled, &context);
    PassManager pm(&context);
    pm.addPass(createPlanMemoryPass());
    if (failed(pm.run(*module)))
      return;
    FailureOr<DeviceMemory> memory = measureDeviceMemory(*module);
    if (failed(memory))
      return;
    // The copy's bytes are free after its release, which is operation 9.
    auto function = module->lookupSymbol<func::FuncOp>("only_microbatch");
    planned.free.push_back({function, kCopy, 256, 10, 15});
    // All results follow the copy, one after the other.
    planned.arenaBytes = kCopy + 256;
    for (const ResultPlace &result : memory->functions[1].results) {
      planned.results.push_back({result.op, planned.arenaBytes, result.bytes});
      planned.arenaBytes += 512;
    }
    // The input and the model's buffer are elsewhere.
    needed = planned.arenaBytes + 256 + 4 * 4096;
  }

  /// Returns the first error, or nothing.
  std::string verify(int64_t deviceBytes) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (message.empty())
        message = diagnostic.str();
    });
    EXPECT_EQ(succeeded(verifyBudget(*module, planned, deviceBytes, 0)),
              message.empty());
    return message;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  PlannedMemory planned;
  int64_t needed = 0;
};
} // namespace

TEST_F(BudgetProofTest, AcceptsWhatFits) {
  ASSERT_EQ(planned.results.size(), 5u);
  EXPECT_EQ(verify(needed), "");
  EXPECT_EQ(verify(needed - 1),
            "the plan needs " + std::to_string(needed) +
                " bytes of device memory per rank, expected at most " +
                std::to_string(needed - 1) +
                "; raise the limit or choose other residencies");
}

TEST_F(BudgetProofTest, RefusesMissingPlaces) {
  planned.results.pop_back();
  EXPECT_EQ(verify(needed),
            "'aten.call' op in @only_microbatch: expected a place in the "
            "device arena for each of its results");
}

TEST_F(BudgetProofTest, RefusesSmallPlaces) {
  planned.results[0].bytes = 255;
  EXPECT_EQ(verify(needed),
            "'aten.call' op in @only_microbatch: expected a place of 256 bytes "
            "in the device arena, got 255 at " +
                std::to_string(planned.results[0].offset));
}

/// The first product is in use while its view is.
TEST_F(BudgetProofTest, RefusesOverlap) {
  for (size_t later : {1, 2, 3}) {
    int64_t offset = planned.results[later].offset;
    planned.results[later].offset = planned.results[0].offset;
    EXPECT_NE(verify(needed).find("overlaps another one"), std::string::npos);
    planned.results[later].offset = offset;
  }
  planned.results[4].offset = planned.results[0].offset;
  EXPECT_EQ(verify(needed), "");
}

/// The sum of the second product follows the copy's release; the product itself
/// precedes it.
TEST_F(BudgetProofTest, RefusesBytesOfBuffers) {
  int64_t offset = std::exchange(planned.results[2].offset, kCopy);
  EXPECT_EQ(verify(needed), "");
  planned.results[2].offset = offset;
  for (int64_t taken : {int64_t(0), kCopy, kCopy + 192}) {
    planned.results[1].offset = taken;
    EXPECT_NE(verify(needed).find("overlaps a state or a buffer"),
              std::string::npos);
  }
}

TEST_F(BudgetProofTest, RefusesSmallArenas) {
  planned.arenaBytes = planned.results[4].offset;
  EXPECT_NE(verify(needed).find("expected a device arena of at least"),
            std::string::npos);
}
