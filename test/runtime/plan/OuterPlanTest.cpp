// SPDX-License-Identifier: Apache-2.0
//
// Plans of outer steps.
#include "PlanEdits.h"
#include "plan/StepPlan.h"

using namespace fcdp;
using namespace fcdp::test;

TEST(StepPlanTest, ReadsOuterSteps) {
  FakeStep step = linearStep(2, 2, 3);
  setOuter(step.plan, 2);
  StepPlan plan = step.load();
  EXPECT_EQ(plan.outer->every, 4u);
  EXPECT_EQ(plan.outer->fragments, 2u);
  EXPECT_EQ(plan.numVariants(), 1u);
  EXPECT_EQ(plan.indexOf(plan::Role::outer_update, 1), 6u);
  for (auto change : {setDifference, setOuterUpdate}) {
    FakeStep other = linearStep(2, 2, 3);
    change(other.plan);
    EXPECT_NO_THROW(other.load());
  }
  // An update without momentum keeps none.
  FakeStep plain = linearStep(2, 2, 3);
  setOuterUpdate(plain.plan);
  plain.plan["outer"]["momentum"] = 0;
  eraseState(plain.plan, "outer_momentum");
  EXPECT_NO_THROW(plain.load());
}

TEST(StepPlanTest, OuterStepsNeedNodes) {
  FakeStep step = linearStep(1, 2, 3);
  setOuter(step.plan);
  expectRefused(step, step.bytes(),
                "plan.outer: expected several nodes, got 1");
}

using Fragments = std::vector<uint32_t>;

TEST(StepPlanTest, FragmentsTakeTurns) {
  StepPlan plan;
  EXPECT_EQ(plan.outerFragments(4), Fragments{});
  plan.outer = std::make_unique<plan::OuterT>();
  plan.outer->every = 4;
  plan.outer->fragments = 1;
  for (int64_t step = 1; step <= 12; ++step)
    EXPECT_EQ(plan.outerFragments(step),
              step % 4 == 0 ? Fragments{0} : Fragments{})
        << step;
  // The first of them comes after a whole round.
  plan.outer->fragments = 2;
  std::vector<Fragments> due;
  for (int64_t step = 1; step <= 10; ++step)
    due.push_back(plan.outerFragments(step));
  EXPECT_EQ(due, (std::vector<Fragments>{
                     {}, {1}, {}, {0}, {}, {1}, {}, {0}, {}, {1}}));
}

/// An outer update that is due after a step runs in the next step, if there is
/// one.
TEST(StepPlanTest, FragmentsThatOverlapTakeTurnsAStepLater) {
  StepPlan plan;
  EXPECT_FALSE(plan.overlapsOuter());
  plan.outer = std::make_unique<plan::OuterT>();
  plan.outer->overlap = true;
  EXPECT_TRUE(plan.overlapsOuter());
  plan.outer->every = 4;
  plan.outer->fragments = 2;
  std::vector<Fragments> due;
  for (int64_t step = 1; step <= 9; ++step)
    due.push_back(plan.outerFragments(step));
  EXPECT_EQ(due,
            (std::vector<Fragments>{{}, {}, {1}, {}, {0}, {}, {1}, {}, {0}}));
  // In each of these steps is one of them.
  plan.outer->every = plan.outer->fragments = 3;
  for (int64_t step = 4; step <= 9; ++step)
    EXPECT_EQ(plan.outerFragments(step).size(), 1u) << step;
}

/// Each fragment is due once in `every` steps, also where the number of steps
/// is no multiple of theirs.
TEST(StepPlanTest, EachFragmentIsDueOnceInARound) {
  StepPlan plan;
  plan.outer = std::make_unique<plan::OuterT>();
  for (auto [every, fragments] :
       {std::pair(1u, 1u), {5u, 3u}, {7u, 7u}, {100u, 8u}}) {
    plan.outer->every = every;
    plan.outer->fragments = fragments;
    std::vector<int> counts(fragments);
    for (int64_t step = 2 * every + 1; step <= 3 * every; ++step)
      for (uint32_t fragment : plan.outerFragments(step))
        ++counts[fragment];
    EXPECT_EQ(counts, std::vector<int>(fragments, 1)) << every;
  }
}

static const Refusal kOuterRefusals[] = {
    {"OuterEveryZero",
     [](Json &m) {
       setOuter(m);
       m["outer"]["every"] = 0;
     },
     "plan.outer.fragments: expected from 1 to 'every', got 1 of 0"},
    {"OuterWithoutFragments", [](Json &m) { setOuter(m, 0); },
     "plan.outer.fragments: expected from 1 to 'every', got 0 of 4"},
    {"OuterFragmentsOfAStep", [](Json &m) { setOuter(m, 5); },
     "plan.outer.fragments: expected from 1 to 'every', got 5 of 4"},
    {"OuterFragmentsHuge",
     [](Json &m) {
       setOuter(m);
       m["outer"]["every"] = m["outer"]["fragments"] = 4294967295;
     },
     "plan.outer.fragments: expected a number up to that of the 6 functions, "
     "got 4294967295"},
    {"OuterRate",
     [](Json &m) {
       setOuter(m);
       m["outer"]["lr"] = -1;
     },
     "plan.outer.lr: expected a finite number of at least 0, got -1"},
    {"OuterMomentum",
     [](Json &m) {
       setOuter(m);
       m["outer"]["momentum"] = -0.5;
     },
     "plan.outer.momentum: expected a finite number of at least 0, got -0.5"},
    {"OuterUpdateOfNoFragment",
     [](Json &m) {
       setOuter(m);
       m["functions"].back()["variant"] = 1;
     },
     "plan.functions: expected 'outer_update' of 1 fragments, as 'outer' says, "
     "got 'outer_update' of fragment 1"},
    {"OuterUpdateWithoutOuter",
     [](Json &m) {
       setOuter(m);
       m.erase("outer");
     },
     "plan.functions: expected 'outer_update' of 0 fragments, as 'outer' says, "
     "got 'outer_update' of fragment 0"},
    {"OuterUpdateThatOverlaps",
     [](Json &m) {
       setOuter(m);
       m["outer"]["overlap"] = true;
     },
     "plan.functions: expected 'last_outer_microbatch' of 1 fragments, as "
     "'outer' says, got 'outer_update' of fragment 0"},
    {"OuterMicrobatchMissing",
     [](Json &m) {
       setOuter(m);
       m["functions"].erase(5);
       m["outer"]["overlap"] = true;
     },
     "plan.functions: 'last_outer_microbatch' of fragment 0 is missing"},
    {"OuterMicrobatchOfVariants",
     [](Json &m) {
       setOuter(m);
       m["outer"]["overlap"] = true;
       addVariant(m);
       m["functions"][2]["variant"] = 1;
     },
     "plan.outer.overlap: expected a step of one shape, got 2"},
    {"OuterUpdateMissing",
     [](Json &m) {
       setOuter(m, 2);
       m["functions"].erase(5);
     },
     "plan.functions: 'outer_update' of fragment 0 is missing"},
    {"OuterUpdateTwice",
     [](Json &m) {
       setOuter(m, 2);
       m["functions"].back()["variant"] = 0;
     },
     "plan.functions[6]: 'outer_update' is there twice"},
    {"OuterBytes",
     [](Json &m) {
       setDifference(m);
       stateOf(m, "outer")["buf"]["bytes"] = 16;
     },
     "states.outer.bytes: expected 8 (2 elements of f32), got 16"},
    {"OuterMomentumType",
     [](Json &m) {
       setDifference(m);
       stateOf(m, "outer_momentum")["dtype"] = "bf16";
     },
     "states.outer_momentum.dtype: expected f32, got bf16"},
    {"DifferenceWithoutOuter",
     [](Json &m) {
       setDifference(m);
       m.erase("outer");
       m["functions"].erase(5);
       m["functions"].back()["end"] = m["ops"].size();
     },
     "expected 'outer' in the plan"},
    {"DifferenceWithoutState",
     [](Json &m) {
       setDifference(m);
       eraseState(m, "outer");
     },
     "bucket 'b' has no state 'outer' and 'outer_momentum'"},
    {"OuterUpdateWithoutMomentum",
     [](Json &m) {
       setOuterUpdate(m);
       eraseState(m, "outer_momentum");
     },
     "bucket 'b' has no state 'outer' and 'outer_momentum'"},
    {"DifferenceElements",
     [](Json &m) {
       setDifference(m);
       op(m, "outer_difference")["elements"] = 4;
     },
     ".elements: expected the 2 elements of the shard of bucket 'b', got 4"},
    {"DifferenceBytes",
     [](Json &m) {
       setDifference(m);
       op(m, "outer_difference")["type"] = "bf16";
     },
     ".out.bytes: expected 4 (2 elements of bf16), got 8"},
    {"OuterUpdateBytes",
     [](Json &m) {
       setOuterUpdate(m);
       op(m, "outer_update")["in"]["bytes"] = 4;
     },
     ".in.bytes: expected 8 (2 elements of f32), got 4"},
    {"OuterUpdateBucket",
     [](Json &m) {
       setOuterUpdate(m);
       op(m, "outer_update")["bucket"] = 1;
     },
     "index 1 is out of range: there are 1 buckets"},
    {"OuterUpdateScale",
     [](Json &m) {
       setOuterUpdate(m);
       op(m, "outer_update")["scale"] = 0.25;
     },
     ".scale: expected 0.5, 1 / nodes, got 0.25"},
};

INSTANTIATE_TEST_SUITE_P(OuterSteps, RefusalTest,
                         ::testing::ValuesIn(kOuterRefusals), nameOf);
