// SPDX-License-Identifier: Apache-2.0

#include "dialects/Fcdp/StepFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <map>
#include <set>
#include <vector>

using namespace fcdp;

using Roles = std::vector<Role>;

static Roles getStep(int64_t microBatches) {
  llvm::SmallVector<Role> step = StepFamily(microBatches).getStep();
  return Roles(step.begin(), step.end());
}

/// Returns the role of the micro-batch `last` with an outer update in it.
static Role getOverlapped(Role last) {
  return last == Role::only_microbatch ? Role::only_outer_microbatch
                                       : Role::last_outer_microbatch;
}

TEST(StepFamilyTest, stepsOfOneTwoAndMoreMicroBatches) {
  EXPECT_EQ(getStep(1), (Roles{Role::only_microbatch, Role::update}));
  EXPECT_EQ(getStep(2), (Roles{Role::first_microbatch, Role::last_microbatch,
                               Role::update}));
  EXPECT_EQ(getStep(4), (Roles{Role::first_microbatch, Role::next_microbatch,
                               Role::next_microbatch, Role::last_microbatch,
                               Role::update}));
}

TEST(StepFamilyTest, countsRunsOfAStep) {
  StepFamily four(4);
  EXPECT_EQ(four.countRuns(Role::init), 0);
  EXPECT_EQ(four.countRuns(Role::next_microbatch), 2);
  EXPECT_EQ(four.countRuns(Role::update), 1);
  EXPECT_EQ(four.countRuns(Role::only_microbatch), 0);
  EXPECT_EQ(StepFamily(2).countRuns(Role::next_microbatch), 0);
}

/// Every pair of functions that a job runs one after the other is in the
/// grammar, and no others are.
TEST(StepFamilyTest, successorsAreThePairsThatJobsRun) {
  std::map<Role, std::vector<Role>> pairs;
  for (int64_t microBatches = 1; microBatches <= 4; ++microBatches) {
    Roles job{Role::init};
    auto evaluate = [&] {
      job.insert(job.end(), {Role::first_evaluation, Role::next_evaluation,
                             Role::next_evaluation});
    };
    auto evaluateOne = [&] { job.push_back(Role::first_evaluation); };
    auto train = [&] {
      for (Role role : getStep(microBatches))
        job.push_back(role);
    };
    auto synchronize = [&] {
      train();
      job.push_back(Role::outer_update);
    };
    auto overlap = [&] {
      for (Role role : getStep(microBatches))
        job.push_back(isLastOfStep(role) ? getOverlapped(role) : role);
    };
    // Every two of these follow each other, and each is the first once.
    train();
    train();
    evaluate();
    train();
    evaluateOne();
    train();
    evaluate();
    evaluate();
    evaluateOne();
    evaluateOne();
    overlap();
    overlap();
    evaluate();
    overlap();
    synchronize();
    job.push_back(Role::outer_update); // of another fragment
    train();
    synchronize();
    overlap();
    synchronize();
    evaluate();
    job.push_back(Role::init); // another job
    overlap();
    job.push_back(Role::init);
    evaluate();
    for (size_t i = 1; i < job.size(); ++i)
      if (job[i] != Role::init &&
          !llvm::is_contained(pairs[job[i - 1]], job[i]))
        pairs[job[i - 1]].push_back(job[i]);
  }
  for (int64_t microBatches : {1, 3})
    for (Role role : StepFamily(microBatches, /*evaluates=*/true,
                                /*variants=*/1, /*fragments=*/1)
                         .getRoles())
      EXPECT_FALSE(pairs[role].empty());
  for (auto &[role, successors] : pairs) {
    llvm::sort(successors);
    llvm::ArrayRef<Role> stated = getSuccessors(role);
    Roles expected(stated.begin(), stated.end());
    llvm::sort(expected);
    EXPECT_EQ(successors, expected) << "after " << stringifyRole(role).str();
  }
}

TEST(StepFamilyTest, endsOfAStep) {
  for (int64_t microBatches : {1, 2, 3}) {
    Roles step = getStep(microBatches);
    for (size_t i = 0; i < step.size(); ++i) {
      EXPECT_EQ(isMicrobatch(step[i]), i + 1 < step.size());
      EXPECT_EQ(isFirstOfStep(step[i]), i == 0);
      EXPECT_EQ(isLastOfStep(step[i]), i + 2 == step.size());
    }
  }
  EXPECT_FALSE(isMicrobatch(Role::init));
  EXPECT_FALSE(runsModel(Role::init));
}

TEST(StepFamilyTest, evaluationsAreNoPartOfAStep) {
  for (int64_t microBatches : {1, 3}) {
    StepFamily with(microBatches, /*evaluates=*/true), without(microBatches);
    EXPECT_EQ(with.getStep(), without.getStep());
    EXPECT_EQ(with.getRoles().size(), without.getRoles().size() + 2);
    for (Role role : {Role::first_evaluation, Role::next_evaluation}) {
      EXPECT_TRUE(isEvaluation(role) && runsModel(role));
      EXPECT_FALSE(isMicrobatch(role) || isFirstOfStep(role) ||
                   isLastOfStep(role));
      EXPECT_TRUE(with.runs(role));
      EXPECT_FALSE(without.runs(role));
      EXPECT_EQ(with.countRuns(role), 0);
    }
  }
}

TEST(StepFamilyTest, outerUpdatesComeBetweenSteps) {
  EXPECT_TRUE(isSynchronized(Role::outer_update));
  EXPECT_TRUE(isSynchronized(Role::next_evaluation));
  EXPECT_FALSE(isSynchronized(Role::update));
  EXPECT_FALSE(
      isMicrobatch(Role::outer_update) || isEvaluation(Role::outer_update) ||
      runsModel(Role::outer_update) || isFirstOfStep(Role::outer_update) ||
      isLastOfStep(Role::outer_update));
  for (int64_t microBatches : {1, 3}) {
    StepFamily with(microBatches, /*evaluates=*/false, /*variants=*/1,
                    /*fragments=*/4);
    StepFamily without(microBatches);
    EXPECT_EQ(with.getStep(), without.getStep());
    EXPECT_EQ(with.getRoles().size(), without.getRoles().size() + 1);
    EXPECT_TRUE(with.runs(Role::outer_update));
    EXPECT_FALSE(without.runs(Role::outer_update));
    EXPECT_EQ(with.countRuns(Role::outer_update), 0);
  }
}

/// A micro-batch with an outer update in it is at the place of the micro-batch
/// without one.
TEST(StepFamilyTest, outerUpdatesMayBeInMicrobatches) {
  for (int64_t microBatches : {1, 3}) {
    StepFamily family(microBatches, /*evaluates=*/true, /*variants=*/1,
                      /*fragments=*/2, /*overlapsOuter=*/true);
    Role last = *std::prev(getStep(microBatches).end(), 2);
    Role outer = getOverlapped(last);
    EXPECT_EQ(getInnerRole(outer), last);
    EXPECT_EQ(getInnerRole(last), last);
    EXPECT_TRUE(isOuter(outer) && isMicrobatch(outer) && isLastOfStep(outer));
    EXPECT_FALSE(isOuter(last) || isSynchronized(outer));
    EXPECT_EQ(isFirstOfStep(outer), microBatches == 1);
    EXPECT_TRUE(family.runs(outer));
    EXPECT_EQ(family.countRuns(outer), 0);
    EXPECT_FALSE(llvm::is_contained(family.getRoles(), Role::outer_update));
    auto members = family.getMembers();
    for (int64_t fragment : {0, 1}) {
      FamilyMember one{outer, fragment};
      EXPECT_TRUE(llvm::is_contained(members, one));
      EXPECT_EQ(getBoundaryBehind(one), getBoundaryBehind({last}));
      EXPECT_EQ(getBoundaryBefore(one), getBoundaryBefore({last}));
      for (const FamilyMember &other : members) {
        EXPECT_EQ(mayFollow(other, one), mayFollow(other, {last}));
        EXPECT_EQ(mayFollow(one, other), mayFollow({last}, other));
      }
    }
  }
}

using Members = std::vector<FamilyMember>;

/// The functions of a job in the order in which it runs them: a step of each of
/// `variants`.
static Members runJob(int64_t microBatches, llvm::ArrayRef<int64_t> variants) {
  Members job{{Role::init}};
  for (int64_t variant : variants)
    for (Role role : getStep(microBatches))
      job.push_back({role, isMicrobatch(role) ? variant : 0});
  return job;
}

TEST(StepFamilyTest, membersAreOfEachVariant) {
  auto one = StepFamily(1, /*evaluates=*/true).getMembers();
  EXPECT_EQ(Members(one.begin(), one.end()),
            (Members{{Role::init},
                     {Role::only_microbatch},
                     {Role::update},
                     {Role::first_evaluation},
                     {Role::next_evaluation}}));
  auto two = StepFamily(3, /*evaluates=*/false, /*variants=*/2).getMembers();
  EXPECT_EQ(Members(two.begin(), two.end()),
            (Members{{Role::init},
                     {Role::first_microbatch, 0},
                     {Role::next_microbatch, 0},
                     {Role::last_microbatch, 0},
                     {Role::first_microbatch, 1},
                     {Role::next_microbatch, 1},
                     {Role::last_microbatch, 1},
                     {Role::update}}));
}

/// Fragments are no variants of the step, and each has one outer update.
TEST(StepFamilyTest, membersAreOfEachFragment) {
  auto members = StepFamily(1, /*evaluates=*/true, /*variants=*/2,
                            /*fragments=*/3)
                     .getMembers();
  EXPECT_EQ(Members(members.begin(), members.end()),
            (Members{{Role::init},
                     {Role::only_microbatch, 0},
                     {Role::only_microbatch, 1},
                     {Role::update},
                     {Role::first_evaluation},
                     {Role::next_evaluation},
                     {Role::outer_update, 0},
                     {Role::outer_update, 1},
                     {Role::outer_update, 2}}));
}

/// Outer updates of any fragments follow each other and updates, and any
/// variant of a step follows them.
TEST(StepFamilyTest, fragmentsTakeAnyTurns) {
  for (int64_t fragment : {0, 2}) {
    FamilyMember outer{Role::outer_update, fragment};
    EXPECT_TRUE(mayFollow({Role::update}, outer));
    EXPECT_TRUE(mayFollow({Role::outer_update, 1}, outer));
    EXPECT_TRUE(mayFollow(outer, outer));
    for (int64_t variant : {0, 1}) {
      EXPECT_TRUE(mayFollow(outer, {Role::only_microbatch, variant}));
      EXPECT_TRUE(mayFollow(outer, {Role::first_microbatch, variant}));
      EXPECT_FALSE(mayFollow({Role::only_microbatch, variant}, outer));
      EXPECT_FALSE(mayFollow(outer, {Role::last_microbatch, variant}));
    }
    EXPECT_TRUE(mayFollow(outer, {Role::first_evaluation}));
    EXPECT_FALSE(mayFollow(outer, {Role::next_evaluation}));
    EXPECT_FALSE(mayFollow(outer, {Role::update}));
    EXPECT_FALSE(mayFollow({Role::init}, outer));
    EXPECT_FALSE(mayFollow({Role::next_evaluation}, outer));
  }
}

/// Steps of any variants follow each other, and no step changes its variant.
TEST(StepFamilyTest, aStepIsOfOneVariant) {
  for (int64_t microBatches : {1, 4}) {
    Members job = runJob(microBatches, {0, 0, 1, 1, 0});
    std::set<std::pair<FamilyMember, FamilyMember>> pairs;
    for (const Members &run :
         {job, runJob(std::min<int64_t>(microBatches, 2), {0, 1})})
      for (size_t i = 1; i < run.size(); ++i)
        pairs.insert({run[i - 1], run[i]});
    pairs.insert({{Role::init}, runJob(microBatches, {1})[1]});
    for (const FamilyMember &before : job)
      for (const FamilyMember &after : job)
        EXPECT_EQ(mayFollow(before, after), pairs.count({before, after}) > 0)
            << stringifyRole(before.role).str() << before.number << " to "
            << stringifyRole(after.role).str() << after.number;
  }
}

/// Functions that may follow each other meet at one boundary, and those that
/// end at one boundary have the same successors.
TEST(StepFamilyTest, boundariesTellVariantsApartWithinAStep) {
  for (int64_t microBatches : {1, 3})
    for (bool evaluates : {false, true}) {
      auto roles =
          StepFamily(microBatches, evaluates, 3, /*fragments=*/2).getMembers();
      for (FamilyMember before : roles)
        for (FamilyMember after : roles) {
          if (isSynchronized(before.role) || isSynchronized(after.role))
            continue; // nothing is in flight there
          EXPECT_EQ(mayFollow(before, after),
                    getBoundaryBehind(before) == getBoundaryBefore(after));
        }
    }
}
