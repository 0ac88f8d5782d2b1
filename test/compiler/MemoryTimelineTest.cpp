// SPDX-License-Identifier: Apache-2.0
//
// Hand-written steps of one bucket on 2 nodes. Positions are written
// beside the operations that a test asks for.

#include "fcdp/Planning/Memory/MemoryTimeline.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Planning/Memory/ReservedMemory.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {
constexpr const char *kSymbols = R"(
  fcdp.parameter @w : tensor<64xf32> unit "" trainable names ["w"]
  fcdp.input @x : tensor<64xf32> name "x"
  fcdp.input @rows : tensor<2x64xf32> name "rows"
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
)";
constexpr const char *kFourRanks = R"(
  fcdp.mesh @world(node = 2, local = 2)
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
)";

class MemoryTimelineTest : public testing::Test {
protected:
  MemoryTimelineTest() {
    context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  }

  void parse(const Twine &body, StringRef mesh = kFourRanks) {
    std::string text =
        "module attributes {fcdp.phase = #fcdp.phase<scheduled>} {\n";
    text += kSymbols;
    text += mesh;
    text += body.str();
    text += "\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
  }
  func::FuncOp find(StringRef name) {
    return module->lookupSymbol<func::FuncOp>(name);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

void expectSpan(const MemorySpan &span, int64_t firstWrite, int64_t release) {
  EXPECT_EQ(span.firstWrite, firstWrite);
  EXPECT_EQ(span.release, release);
}
} // namespace

/// A value is in use from its operation to its release, and a view counts as a
/// use. A result is in use until its last reader.
TEST_F(MemoryTimelineTest, GathersAndResults) {
  parse(R"(
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %s = fcdp.read_shard @b : tensor<16xf32>
    %slice = fcdp.all_gather %s of @b over @world[node] range 0 on inter : tensor<16xf32> to tensor<32xf32> // 2
    %t0 = fcdp.record on inter
    fcdp.wait %t0 on intra
    %whole = fcdp.all_gather %slice of @b over @world[local] range 0 on intra : tensor<32xf32> to tensor<64xf32> // 5
    %t1 = fcdp.record on intra
    fcdp.wait %t1 on compute
    %w = fcdp.view_member %whole @w of @b : tensor<64xf32> to tensor<64xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> // 9
    fcdp.release %slice : tensor<32xf32>  // 10
    fcdp.release %whole : tensor<64xf32>  // 11
    %l = aten.call "aten.sum.default"(self = %0) : (tensor<64xf32>) -> tensor<f32> // 12
    fcdp.loss %l : tensor<f32> // 13
    return
  })");
  MemoryTimeline timelines(*module);
  const FunctionTimeline &timeline = timelines.lookup(find("only_microbatch"));
  EXPECT_EQ(timeline.length, 15);
  ASSERT_EQ(timeline.buffers.size(), 2u);
  expectSpan(timeline.buffers[0].span, 2, 10);
  expectSpan(timeline.buffers[1].span, 5, 11);
  EXPECT_FALSE(timeline.buffers[1].isInFlight());
  EXPECT_TRUE(timeline.liveIns.empty());
  EXPECT_TRUE(timeline.copies.empty());
  ASSERT_EQ(timeline.results.size(), 2u);
  EXPECT_EQ(timeline.results[0].begin, 9);
  EXPECT_EQ(timeline.results[0].end, 13);
  EXPECT_EQ(timeline.results[1].begin, 12);
  EXPECT_EQ(timeline.results[1].end, 14);
}

namespace {
constexpr const char *kGradients = R"(
  fcdp.state @b.grad grad of @b in device : tensor<16xf32>
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @rows : tensor<2x64xf32>
    %g = aten.call "aten.sum.dim_IntList"(self = %x, dim = [0]) : (tensor<2x64xf32>) -> tensor<64xf32> // 1
    %l = aten.call "aten.sum.default"(self = %x) : (tensor<2x64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    %p = fcdp.pack @b(%g as @w) : (tensor<64xf32>) -> tensor<64xf32> // 4
    %t0 = fcdp.record on compute
    fcdp.wait %t0 on intra_reduce
    %r = fcdp.reduce_scatter %p of @b over @world[local] on intra_reduce : tensor<64xf32> to tensor<32xf32> // 7
    %t1 = fcdp.record on intra_reduce
    fcdp.wait %t1 on compute
    fcdp.release %p : tensor<64xf32> // 10
    fcdp.release %r : tensor<32xf32> // 11
    return
  })";
} // namespace

/// The scratch of a reduction is in use as long as its input.
TEST_F(MemoryTimelineTest, Scratch) {
  parse(kGradients);
  MemoryTimeline timelines(*module);
  const FunctionTimeline &timeline = timelines.lookup(find("only_microbatch"));
  ASSERT_EQ(timeline.buffers.size(), 3u);
  expectSpan(timeline.buffers[0].span, 4, 10);
  expectSpan(timeline.buffers[1].span, 7, 11);
  EXPECT_TRUE(timeline.buffers[2].isScratch);
  EXPECT_EQ(timeline.buffers[2].op, timeline.buffers[1].op);
  expectSpan(timeline.buffers[2].span, 7, 10);
}

/// A bucket is written first by the call that makes a gradient in place, whose
/// result then takes no memory of its own.
TEST_F(MemoryTimelineTest, InPlaceGradients) {
  parse(kGradients);
  func::FuncOp function = find("only_microbatch");
  MemoryTimeline timelines(*module);
  EXPECT_EQ(timelines.lookup(function).results.size(), 2u);
  auto pack = *function.getOps<PackOp>().begin();
  pack.setInPlaceAttr(ArrayAttr::get(&context, {pack.getParameters()[0]}));
  timelines.update(function);
  expectSpan(timelines.lookup(function).buffers[0].span, 1, 10);
  EXPECT_EQ(timelines.lookup(function).results.size(), 1u);
}

namespace {
constexpr const char *kTwoNodes = R"(
  fcdp.mesh @world(node = 2, local = 1)
  fcdp.state @b.shard shard of @b in device : tensor<32xf32>
)";
/// Each micro-batch gathers the bucket for the next, which gathers it within
/// the node on `intra`: this reads the copy when compute is further on already.
constexpr const char *kPrefetched = R"(
  fcdp.state @b.next prefetched of @b in device : tensor<64xf32>
  func.func @first_microbatch() -> !fcdp.token attributes {fcdp.role = #fcdp.role<first_microbatch>} {
    %s = fcdp.read_shard @b : tensor<32xf32>
    %next = fcdp.all_gather %s of @b over @world[node] range 0 into @b.next on inter : tensor<32xf32> to tensor<64xf32> // 1
    fcdp.release %next on inter : tensor<64xf32>
    %t = fcdp.record on inter
    return %t : !fcdp.token
  }
  func.func @last_microbatch(%t : !fcdp.token) attributes {fcdp.role = #fcdp.role<last_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %copy = fcdp.read_state @b.next : tensor<64xf32>
    fcdp.wait %t on intra
    %whole = fcdp.all_gather %copy of @b over @world[local] range 0 on intra : tensor<64xf32> to tensor<64xf32> // 3
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> // 4
    %t1 = fcdp.record on intra
    fcdp.wait %t1 on compute // 6
    %w = fcdp.view_member %whole @w of @b : tensor<64xf32> to tensor<64xf32>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> // 8
    fcdp.wait %t on compute // 9
    fcdp.release %whole : tensor<64xf32> // 10
    %l = aten.call "aten.sum.default"(self = %1) : (tensor<64xf32>) -> tensor<f32> // 11
    fcdp.loss %l : tensor<f32>
    return
  })";
} // namespace

TEST_F(MemoryTimelineTest, PrefetchedCopies) {
  parse(kPrefetched, kTwoNodes);
  MemoryTimeline timelines(*module);
  const FunctionTimeline &first = timelines.lookup(find("first_microbatch"));
  ASSERT_EQ(first.buffers.size(), 1u);
  EXPECT_TRUE(first.buffers[0].isInFlight());
  expectSpan(first.buffers[0].span, 1, first.length);
  EXPECT_TRUE(first.copies.empty());

  const FunctionTimeline &last = timelines.lookup(find("last_microbatch"));
  ASSERT_EQ(last.liveIns.size(), 1u);
  EXPECT_EQ(last.liveIns[0].op, first.buffers[0].op);
  expectSpan(last.liveIns[0].span, 0, 10);
  // The gather on intra is the last to use the copy, and compute has waited
  // for it where its result is released.
  ASSERT_EQ(last.copies.size(), 1u);
  EXPECT_EQ(StateOp(last.copies[0].state).getSymName(), "b.next");
  expectSpan(last.copies[0].span, 0, 10);
}

/// A copy is reserved while it is in flight, even if nothing reads it.
TEST_F(MemoryTimelineTest, UnreadCopies) {
  parse(kPrefetched, kTwoNodes);
  func::FuncOp function = find("last_microbatch");
  auto gather = *function.getOps<AllGatherOp>().begin();
  auto read = *function.getOps<ReadStateOp>().begin();
  OpBuilder builder(gather);
  gather.getInputMutable().assign(ReadShardOp::create(
      builder, gather.getLoc(), gather.getInput().getType(), "b"));
  read.erase();
  MemoryTimeline timelines(*module);
  const FunctionTimeline &last = timelines.lookup(function);
  ASSERT_EQ(last.copies.size(), 1u);
  expectSpan(last.copies[0].span, 0, 10);
}

/// A store to host memory reads the copy until compute has waited for it.
TEST_F(MemoryTimelineTest, CopiesThatAreStored) {
  std::string text = kPrefetched;
  text.insert(text.find("    %t1 = fcdp.record on intra"),
              "    fcdp.cache_store %copy to @b.cache on d2h : "
              "tensor<64xf32>\n    %t2 = fcdp.record on d2h\n");
  text.insert(text.find("    %l = aten.call"),
              "    fcdp.wait %t2 on compute\n");
  parse("  fcdp.state @b.cache cache of @b in host : tensor<64xf32>\n" + text,
        kTwoNodes);
  MemoryTimeline timelines(*module);
  const FunctionTimeline &last = timelines.lookup(find("last_microbatch"));
  ASSERT_EQ(last.copies.size(), 1u);
  expectSpan(last.copies[0].span, 0, 14); // after the wait for %t2
}

/// The plan, the reserved memory and the report agree on when the copy is
/// free. The plan and the report once had it free after the gather's issue,
/// while `intra` still reads it.
TEST_F(MemoryTimelineTest, AllAgreeOnPrefetchedCopies) {
  parse(kPrefetched, kTwoNodes);
  func::FuncOp function = find("last_microbatch");
  StatePlan states = planStates(*module);
  MemoryTimeline timelines(*module);
  FailureOr<PackingProblem> problem =
      describeBuffers(function, timelines, states);
  ASSERT_TRUE(succeeded(problem));
  ASSERT_EQ(problem->buffers.size(), 2u);
  EXPECT_EQ(problem->buffers[1].offset, 0);
  EXPECT_EQ(problem->buffers[1].bytes, 256);
  EXPECT_EQ(problem->buffers[1].begin, 0);
  EXPECT_EQ(problem->buffers[1].end, 10);

  FailureOr<MemoryLayouts> layouts = computeMemoryLayouts(*module);
  ASSERT_TRUE(succeeded(layouts));
  ReservedMemory reserved = findReservedMemory(function, *layouts);
  bool isReserved = false;
  for (const MemoryRange &range : reserved.ranges)
    if (range.offset == reserved.stateBytes)
      isReserved |= range.begin == 0 && range.end == 11; // the next operator
  EXPECT_TRUE(isReserved);

  std::vector<BytesByUse> byPosition;
  measureFunctionMemory(function, *layouts, &byPosition);
  EXPECT_EQ(byPosition[4][MemoryUse::Gathered], 2 * 256);
  EXPECT_EQ(byPosition[9][MemoryUse::Gathered], 2 * 256);
  EXPECT_EQ(byPosition[10][MemoryUse::Gathered], 0);
}

/// The operands of a late sum stay in flight until compute has waited for it in
/// the next function.
TEST_F(MemoryTimelineTest, LateSums) {
  parse(R"(
  fcdp.state @b.grad grad of @b in device : tensor<16xf32>
  func.func @only_microbatch() -> !fcdp.token attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %p = fcdp.pack @b(%x as @w) : (tensor<64xf32>) -> tensor<64xf32> // 1
    %t0 = fcdp.record on compute
    fcdp.wait %t0 on intra_reduce
    %r = fcdp.reduce_scatter %p of @b over @world[local, node] on intra_reduce : tensor<64xf32> to tensor<16xf32> // 4
    fcdp.accumulate %r into @b add late on intra_reduce : tensor<16xf32> // 5
    fcdp.release %p on intra_reduce : tensor<64xf32>
    fcdp.release %r on intra_reduce : tensor<16xf32>
    %t1 = fcdp.record on intra_reduce
    return %t1 : !fcdp.token
  }
  func.func @update(%t : !fcdp.token) attributes {fcdp.role = #fcdp.role<update>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    fcdp.wait %t on compute // 1
    return
  })");
  MemoryTimeline timelines(*module);
  const FunctionTimeline &before = timelines.lookup(find("only_microbatch"));
  ASSERT_EQ(before.buffers.size(), 3u);
  expectSpan(before.buffers[0].span, 1, before.length);
  expectSpan(before.buffers[1].span, 4, before.length);
  expectSpan(before.buffers[2].span, 4, before.length);
  const FunctionTimeline &after = timelines.lookup(find("update"));
  ASSERT_EQ(after.liveIns.size(), 3u);
  for (auto [liveIn, buffer] : llvm::zip_equal(after.liveIns, before.buffers)) {
    EXPECT_EQ(liveIn.op, buffer.op);
    EXPECT_EQ(liveIn.isScratch, buffer.isScratch);
    expectSpan(liveIn.span, 0, 2);
  }
}
