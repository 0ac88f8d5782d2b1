// SPDX-License-Identifier: Apache-2.0
//
// The pass Accumulate and the residency estimate are held to one table: both
// are counted against it.

#include "fcdp/Planning/Residency/SumPolicy.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Planning/Residency/ResidencyProblem.h"
#include "fcdp/Transforms/Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {
constexpr Accumulation kAccumulations[] = {
    Accumulation::sharded, Accumulation::node, Accumulation::node_host,
    Accumulation::full};
constexpr Role kSeveral[] = {Role::first_microbatch, Role::next_microbatch,
                             Role::last_microbatch};

SumPolicy makePolicy(Accumulation accumulation, int64_t microBatches,
                     bool hasNodes = true) {
  return SumPolicy(
      {accumulation, /*isTrainable=*/true, microBatches > 1, hasNodes});
}

void expectRow(const SumPolicy &policy, Role role, bool reducesWithin,
               bool reducesBetween, bool adds, bool keeps) {
  const SumActions &row = policy.get(role);
  EXPECT_EQ(row.reducesWithin, reducesWithin) << stringifyRole(role).str();
  EXPECT_EQ(row.reducesBetween, reducesBetween) << stringifyRole(role).str();
  EXPECT_EQ(row.adds, adds) << stringifyRole(role).str();
  EXPECT_EQ(row.keeps, keeps) << stringifyRole(role).str();
}
} // namespace

TEST(SumPolicyTest, shardedReducesEachTime) {
  SumPolicy policy = makePolicy(Accumulation::sharded, 3);
  EXPECT_EQ(policy.state, StateRole::grad);
  expectRow(policy, Role::first_microbatch, true, true, false, true);
  expectRow(policy, Role::next_microbatch, true, true, true, true);
  expectRow(policy, Role::last_microbatch, true, true, true, true);
}

TEST(SumPolicyTest, nodeReducesBetweenNodesOnce) {
  for (Accumulation accumulation :
       {Accumulation::node, Accumulation::node_host}) {
    SumPolicy policy = makePolicy(accumulation, 3);
    EXPECT_EQ(policy.isInHost(), accumulation == Accumulation::node_host);
    expectRow(policy, Role::first_microbatch, true, false, false, true);
    expectRow(policy, Role::next_microbatch, true, false, true, true);
    expectRow(policy, Role::last_microbatch, true, true, true, false);
  }
}

TEST(SumPolicyTest, fullReducesOnce) {
  SumPolicy policy = makePolicy(Accumulation::full, 3);
  EXPECT_EQ(policy.state, StateRole::full_grad);
  expectRow(policy, Role::first_microbatch, false, false, false, true);
  expectRow(policy, Role::next_microbatch, false, false, true, true);
  expectRow(policy, Role::last_microbatch, true, true, true, false);
}

/// With one micro-batch, or with nothing to reduce after the sum, all modes are
/// the same.
TEST(SumPolicyTest, nothingToSumIsSharded) {
  for (Accumulation accumulation : kAccumulations)
    EXPECT_EQ(makePolicy(accumulation, 1).level, SumLevel::all);
  EXPECT_EQ(makePolicy(Accumulation::node, 3, /*hasNodes=*/false).level,
            SumLevel::all);
  EXPECT_EQ(makePolicy(Accumulation::full, 3, /*hasNodes=*/false).level,
            SumLevel::none);
}

/// A frozen bucket has no gradients.
TEST(SumPolicyTest, frozenDoesNothing) {
  SumPolicy policy({Accumulation::node, /*isTrainable=*/false,
                    /*hasSeveral=*/true, /*hasNodes=*/true});
  for (Role role : kSeveral)
    expectRow(policy, role, false, false, false, false);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
constexpr const char *kStep = R"(
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @w : tensor<64xf32> unit "" trainable names ["w"]
  fcdp.input @x : tensor<64xf32> name "x"
  func.func @step() {
    %w = fcdp.read_parameter @w : tensor<64xf32>
    %x = fcdp.read_input @x : tensor<64xf32>
    %0 = aten.call "aten.mul.Tensor"(self = %x, other = %w) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %0) : (tensor<64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %0 of @w : tensor<64xf32>
    return
  }
})";

/// Counts of a function's operations on the gradients of one bucket.
struct Counts {
  int64_t within = 0, between = 0, loads = 0, stores = 0, added = 0;
};

Counts count(func::FuncOp function) {
  Counts counts;
  function.walk([&](Operation *op) {
    if (auto reduce = dyn_cast<ReduceScatterOp>(op))
      ++(isOver(reduce.getAxes(), Axis::node) ? counts.between : counts.within);
    counts.loads += isa<CacheLoadOp>(op);
    counts.stores += isa<CacheStoreOp>(op);
    auto accumulate = dyn_cast<AccumulateOp>(op);
    counts.added += isa<AddOp>(op) ||
                    (accumulate && accumulate.getMode() == Accumulate::add);
  });
  return counts;
}
} // namespace

class SumPolicyPassTest : public testing::TestWithParam<
                              std::tuple<Accumulation, int64_t, int64_t>> {};

TEST_P(SumPolicyPassTest, accumulateAppliesTheTable) {
  auto [accumulation, microBatches, nodes] = GetParam();
  MLIRContext context;
  context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kStep, &context);
  PassManager pm(&context);
  ShardPassOptions shard;
  shard.nodes = nodes;
  shard.ranksPerNode = 2;
  shard.microBatches = microBatches;
  DecidePassOptions decide;
  decide.strategy = "zero3";
  decide.accumulate = stringifyAccumulation(accumulation).str();
  pm.addPass(createShardPass(shard));
  pm.addPass(createBucketPass());
  pm.addPass(createTwoLevelPass());
  pm.addPass(createDecidePass(decide));
  pm.addPass(createAccumulatePass());
  ASSERT_TRUE(succeeded(pm.run(*module)));

  SumPolicy policy = makePolicy(accumulation, microBatches, nodes > 1);
  bool hasState = llvm::any_of(module->getOps<StateOp>(), [&](StateOp state) {
    return state.getRole() == policy.state;
  });
  EXPECT_TRUE(hasState);
  for (auto function : module->getOps<func::FuncOp>()) {
    if (!isMicrobatch(getRole(function)))
      continue;
    const SumActions &row = policy.get(getRole(function));
    Counts counts = count(function);
    EXPECT_EQ(counts.within, row.reducesWithin);
    EXPECT_EQ(counts.between, row.reducesBetween && nodes > 1);
    EXPECT_EQ(counts.added, row.adds);
    EXPECT_EQ(counts.loads, row.adds && policy.isInHost());
    EXPECT_EQ(counts.stores, row.keeps && policy.isInHost());
  }
}

INSTANTIATE_TEST_SUITE_P(All, SumPolicyPassTest,
                         testing::Combine(testing::ValuesIn(kAccumulations),
                                          testing::Values(1, 2, 4),
                                          testing::Values(1, 2)));

//===----------------------------------------------------------------------===//
// The estimate
//===----------------------------------------------------------------------===//

/// Each action of the table takes a second of its own resource, and nothing
/// else takes any time.
TEST(SumPolicyTest, estimatePricesTheTable) {
  auto needed = [](Accumulation accumulation, int64_t microBatches,
                   Cost ResidencyProblem::Bucket::*cost, Resource resource) {
    ResidencyProblem problem;
    problem.deviceBudget = problem.hostBudget = 1;
    problem.microBatches = microBatches;
    ResidencyProblem::Bucket &bucket = problem.buckets.emplace_back();
    bucket.accumulation = accumulation;
    bucket.*cost = {resource, 0, 1};
    problem.uses.emplace_back().reduced = {0};
    return estimate(problem, {BucketResidency()}).needed;
  };
  using Bucket = ResidencyProblem::Bucket;
  for (Accumulation accumulation : kAccumulations)
    for (int64_t microBatches : {1, 2, 4}) {
      SumPolicy policy = makePolicy(accumulation, microBatches);
      int64_t within = 0, between = 0, loads = 0, stores = 0;
      for (Role role : StepFamily(microBatches).getStep()) {
        const SumActions &row = policy.get(role);
        within += row.reducesWithin;
        between += row.reducesBetween;
        loads += row.adds && policy.isInHost();
        stores += row.keeps && policy.isInHost();
      }
      auto expect = [&](int64_t count, Cost Bucket::*cost, Resource resource) {
        EXPECT_EQ(needed(accumulation, microBatches, cost, resource), count)
            << stringifyAccumulation(accumulation).str() << " of "
            << microBatches;
      };
      expect(within, &Bucket::intraReduce, Resource::intra);
      expect(between, &Bucket::interReduce, Resource::inter);
      expect(loads, &Bucket::sumLoad, Resource::h2d);
      expect(stores, &Bucket::sumStore, Resource::d2h);
    }
}
