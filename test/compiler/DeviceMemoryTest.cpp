// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/DeviceMemory.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Planning/Memory/PoolProblem.h"
#include "fcdp/Planning/Memory/ReservedMemory.h"
#include "fcdp/Transforms/Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// One parameter, gathered once for two products, on 2 nodes x 2 ranks.
constexpr const char *kScheduled = R"(
module attributes {fcdp.phase = #fcdp.phase<scheduled>} {
  fcdp.mesh @world(node = 2, local = 2)
  fcdp.parameter @w : tensor<64xf32> unit "" names ["w"]
  fcdp.input @x : tensor<64xf32> name "x"
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %s = fcdp.read_shard @b : tensor<16xf32>
    %slice = fcdp.all_gather %s of @b over @world[node] range 0 on inter : tensor<16xf32> to tensor<32xf32>
    %t0 = fcdp.record on inter
    fcdp.wait %t0 on intra
    %whole = fcdp.all_gather %slice of @b over @world[local] range 0 on intra : tensor<32xf32> to tensor<64xf32>
    %t1 = fcdp.record on intra
    fcdp.wait %t1 on compute
    %w = fcdp.view_member %whole @w of @b : tensor<64xf32> to tensor<64xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %w) {fcdp.parameters = [unit, @w]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %w) {fcdp.parameters = [unit, @w]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    fcdp.release %slice : tensor<32xf32>
    fcdp.release %whole : tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
})";

class DeviceMemoryTest : public testing::Test {
protected:
  DeviceMemoryTest() {
    context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(kScheduled, &context);
  }

  std::string print() {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
    return text;
  }
  DeviceMemory measure() {
    FailureOr<DeviceMemory> memory = measureDeviceMemory(*module);
    EXPECT_TRUE(succeeded(memory));
    return memory.value_or(DeviceMemory());
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

TEST_F(DeviceMemoryTest, AddsUpWhatIsInUse) {
  ASSERT_TRUE(module);
  DeviceMemory memory = measure();
  // The shard, and the gathered bucket with the slice inside it.
  EXPECT_EQ(memory.buffers, 256 + 256);
  // Two products, each preceded by a tag of 64 bytes.
  EXPECT_EQ(memory.pool, 2 * (256 + 64));
  EXPECT_EQ(memory.arena.bytes, 512 + 640);
  EXPECT_EQ(memory.arena.bound, memory.arena.bytes);
  EXPECT_EQ(memory.inputs, 256);
  EXPECT_EQ(memory.total(), 512 + 640 + 256);
  // At the definition of the second product.
  auto call = dyn_cast_if_present<aten::CallOp>(memory.fullest);
  ASSERT_TRUE(call);
  EXPECT_EQ(call.getOperand(0).getDefiningOp(), call->getPrevNode());
  EXPECT_EQ(memory.inUse[MemoryUse::Shards], 64);
  EXPECT_EQ(memory.inUse[MemoryUse::Gathered], 256);
  EXPECT_EQ(memory.inUse[MemoryUse::Activations], 512);
  EXPECT_EQ(memory.inUse[MemoryUse::Inputs], 256);
  EXPECT_EQ(memory.inUse.total(), 64 + 256 + 512 + 256);
}

TEST_F(DeviceMemoryTest, ChangesNothingAndAgreesWithThePlan) {
  ASSERT_TRUE(module);
  std::string before = print();
  FailureOr<int64_t> peak = peakDeviceBytes(*module);
  ASSERT_TRUE(succeeded(peak));
  EXPECT_EQ(print(), before);

  PassManager pm(&context);
  pm.addPass(createPlanMemoryPass());
  ASSERT_TRUE(succeeded(pm.run(*module)));
  EXPECT_NE(print(), before);
  EXPECT_EQ(measure().total(), *peak);
}

/// The gathered bucket is reserved from the first operation on, because no
/// operator runs before its gather, until the first operator after its release.
TEST_F(DeviceMemoryTest, HoldsBuffersAndLendsTheRest) {
  ASSERT_TRUE(module);
  auto function = *std::next(module->getOps<func::FuncOp>().begin());
  FailureOr<MemoryLayouts> layouts = computeMemoryLayouts(*module);
  ASSERT_TRUE(succeeded(layouts));
  ReservedMemory reserved = findReservedMemory(function, *layouts);
  int64_t count = llvm::range_size(function.front());
  const int64_t sum = 13; // position of the sum
  EXPECT_EQ(reserved.stateBytes, 256);
  ASSERT_EQ(reserved.ranges.size(), 1u);
  EXPECT_EQ(reserved.ranges[0].offset, 256);
  EXPECT_EQ(reserved.ranges[0].bytes, 256);
  EXPECT_EQ(reserved.ranges[0].begin, 0);
  EXPECT_EQ(reserved.ranges[0].end, sum);
  std::vector<MemoryRange> freeRanges =
      findFreeMemory(reserved, /*end=*/1024, count);
  ASSERT_EQ(freeRanges.size(), 2u);
  EXPECT_EQ(freeRanges[0].offset, 256);
  EXPECT_EQ(freeRanges[0].begin, sum);
  EXPECT_EQ(freeRanges[0].end, count);
  EXPECT_EQ(freeRanges[1].offset, 512);
  EXPECT_EQ(freeRanges[1].bytes, 512);
  EXPECT_EQ(freeRanges[1].begin, 0);
  EXPECT_TRUE(findFreeMemory(reserved, /*end=*/256, count).empty());

  // The products are after the bucket, and the sum is at the bucket's place.
  PackingProblem problem = makePoolProblem(findActivations(function), reserved);
  ASSERT_EQ(problem.buffers.size(), 5u);
  PackingSolution pool = packArena(problem);
  EXPECT_EQ(llvm::toString(pool.verify(problem)), "");
  EXPECT_EQ(pool.offsets[2], 512);
  EXPECT_EQ(pool.offsets[3], 832);
  EXPECT_EQ(pool.offsets[4], 256);
}

TEST_F(DeviceMemoryTest, MakesRangesApart) {
  std::vector<MemoryRange> apart =
      makeDisjoint({{0, 512, 0, 4}, {256, 512, 2, 6}, {0, 256, 8, 9}});
  auto expect = [&](size_t i, MemoryRange range) {
    EXPECT_EQ(apart[i].offset, range.offset);
    EXPECT_EQ(apart[i].bytes, range.bytes);
    EXPECT_EQ(apart[i].begin, range.begin);
    EXPECT_EQ(apart[i].end, range.end);
  };
  ASSERT_EQ(apart.size(), 4u);
  expect(0, {0, 256, 0, 4});
  expect(1, {0, 256, 8, 9});
  expect(2, {256, 256, 0, 6});
  expect(3, {512, 256, 2, 6});
}

TEST_F(DeviceMemoryTest, RefusesOtherPhases) {
  ASSERT_TRUE(module);
  setPhase(*module, Phase::sharded);
  std::string message;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  EXPECT_TRUE(failed(peakDeviceBytes(*module)));
  EXPECT_EQ(message, "expected a module in phase 'scheduled' or 'planned'");
}

namespace {
/// Takes the analysis that the passes before it have preserved.
class TakeAnalysisPass
    : public PassWrapper<TakeAnalysisPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TakeAnalysisPass)
  explicit TakeAnalysisPass(std::optional<DeviceMemory> &taken)
      : taken(taken) {}

  void runOnOperation() override {
    if (auto cached = getCachedAnalysis<DeviceMemoryAnalysis>())
      if (FailureOr<const DeviceMemory *> memory = cached->get().get();
          succeeded(memory))
        taken = **memory;
  }

private:
  std::optional<DeviceMemory> &taken;
};
} // namespace

/// The passes after the proof of a plan reuse its measurement.
TEST_F(DeviceMemoryTest, VerifyPlanPreservesItsAnalysis) {
  std::string ordered = kScheduled;
  ordered.insert(ordered.find("%slice ="),
                 "%t = fcdp.record on compute\nfcdp.wait %t on inter\n");
  module = parseSourceString<ModuleOp>(ordered, &context);
  ASSERT_TRUE(module);
  std::optional<DeviceMemory> planned, proved;
  PassManager pm(&context);
  pm.addPass(createPlanMemoryPass());
  pm.addPass(std::make_unique<TakeAnalysisPass>(planned));
  pm.addPass(createVerifyPlanPass());
  pm.addPass(std::make_unique<TakeAnalysisPass>(proved));
  ASSERT_TRUE(succeeded(pm.run(*module)));
  EXPECT_FALSE(planned);
  ASSERT_TRUE(proved);
  EXPECT_EQ(proved->total(), measure().total());
  EXPECT_EQ(proved->fullest, measure().fullest);
}

/// An analysis measures when it is first asked for, and reports an error once.
TEST_F(DeviceMemoryTest, AnAnalysisMeasuresOnce) {
  ASSERT_TRUE(module);
  DeviceMemoryAnalysis analysis(*module);
  FailureOr<const DeviceMemory *> memory = analysis.get();
  ASSERT_TRUE(succeeded(memory));
  EXPECT_EQ(*analysis.get(), *memory);

  setPhase(*module, Phase::sharded);
  int errors = 0;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &) { ++errors; });
  DeviceMemoryAnalysis refused(*module);
  EXPECT_EQ(errors, 0);
  EXPECT_TRUE(failed(refused.get()));
  EXPECT_TRUE(failed(refused.get()));
  EXPECT_EQ(errors, 1);
}

/// The products are after the bucket, and the sum is at the bucket's place.
TEST_F(DeviceMemoryTest, PlacesResults) {
  ASSERT_TRUE(module);
  DeviceMemory memory = measure();
  ASSERT_EQ(memory.functions.size(), 3u);
  ArrayRef<ResultPlace> results = memory.functions[1].results;
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].offset, 512);
  EXPECT_EQ(results[0].bytes, 256 + 64);
  EXPECT_EQ(results[1].offset, 832);
  EXPECT_EQ(results[2].offset, 256);
  EXPECT_EQ(cast<aten::CallOp>(results[2].op).getCallee(), "aten.sum.default");
}
