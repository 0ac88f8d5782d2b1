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
    job.push_back(Role::init); // another job
    evaluate();
    for (size_t i = 1; i < job.size(); ++i)
      if (job[i] != Role::init &&
          !llvm::is_contained(pairs[job[i - 1]], job[i]))
        pairs[job[i - 1]].push_back(job[i]);
  }
  for (Role role : StepFamily(1).getRoles())
    EXPECT_FALSE(pairs[role].empty());
  for (Role role : StepFamily(3).getRoles())
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

using VariantRoles = std::vector<VariantRole>;

/// The functions of a job in the order in which it runs them: a step of each of
/// `variants`.
static VariantRoles runJob(int64_t microBatches,
                           llvm::ArrayRef<int64_t> variants) {
  VariantRoles job{{Role::init}};
  for (int64_t variant : variants)
    for (Role role : getStep(microBatches))
      job.push_back({role, isMicrobatch(role) ? variant : 0});
  return job;
}

TEST(StepFamilyTest, membersAreOfEachVariant) {
  auto one = StepFamily(1, /*evaluates=*/true).getVariantRoles();
  EXPECT_EQ(VariantRoles(one.begin(), one.end()),
            (VariantRoles{{Role::init},
                          {Role::only_microbatch},
                          {Role::update},
                          {Role::first_evaluation},
                          {Role::next_evaluation}}));
  auto two =
      StepFamily(3, /*evaluates=*/false, /*variants=*/2).getVariantRoles();
  EXPECT_EQ(VariantRoles(two.begin(), two.end()),
            (VariantRoles{{Role::init},
                          {Role::first_microbatch, 0},
                          {Role::next_microbatch, 0},
                          {Role::last_microbatch, 0},
                          {Role::first_microbatch, 1},
                          {Role::next_microbatch, 1},
                          {Role::last_microbatch, 1},
                          {Role::update}}));
}

/// Steps of any variants follow each other, and no step changes its variant.
TEST(StepFamilyTest, aStepIsOfOneVariant) {
  for (int64_t microBatches : {1, 4}) {
    VariantRoles job = runJob(microBatches, {0, 0, 1, 1, 0});
    std::set<std::pair<VariantRole, VariantRole>> pairs;
    for (const VariantRoles &run :
         {job, runJob(std::min<int64_t>(microBatches, 2), {0, 1})})
      for (size_t i = 1; i < run.size(); ++i)
        pairs.insert({run[i - 1], run[i]});
    pairs.insert({{Role::init}, runJob(microBatches, {1})[1]});
    for (const VariantRole &before : job)
      for (const VariantRole &after : job)
        EXPECT_EQ(mayFollow(before, after), pairs.count({before, after}) > 0)
            << stringifyRole(before.role).str() << before.variant << " to "
            << stringifyRole(after.role).str() << after.variant;
  }
}

/// Functions that may follow each other meet at one boundary, and those that
/// end at one boundary have the same successors.
TEST(StepFamilyTest, boundariesTellVariantsApartWithinAStep) {
  for (int64_t microBatches : {1, 3})
    for (bool evaluates : {false, true}) {
      auto roles = StepFamily(microBatches, evaluates, 3).getVariantRoles();
      for (VariantRole before : roles)
        for (VariantRole after : roles) {
          if (isEvaluation(before.role) || isEvaluation(after.role))
            continue; // nothing is in flight there
          EXPECT_EQ(mayFollow(before, after),
                    getBoundaryBehind(before) == getBoundaryBefore(after));
        }
    }
}
