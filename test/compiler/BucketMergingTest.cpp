// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Buckets/BucketMerging.h"

#include "gtest/gtest.h"

#include <limits>
#include <random>
#include <string>

using namespace fcdp;
using Groups = llvm::SmallVector<size_t>;

namespace {
std::string check(const MergingProblem &problem) {
  return llvm::toString(problem.check());
}
std::string verify(const Groups &groups, const MergingProblem &problem) {
  return llvm::toString(MergingSolution{groups}.verify(problem));
}
} // namespace

TEST(MergingProblem, RefusesBadNumbers) {
  EXPECT_EQ(check({{1, 0}, 10}), "");
  EXPECT_EQ(check({{1, -2}}), "bucket of -2 bytes");
  EXPECT_EQ(check({{}, -1}), "expected a limit of 0 bytes or more, got -1");
}

TEST(MergingSolution, RefusesBadGroups) {
  MergingProblem problem{{4, 4, 4}, 8};
  EXPECT_EQ(verify({0, 0, 1}, problem), "");
  EXPECT_EQ(verify({0, 1, 2}, problem), "");
  EXPECT_EQ(verify({0, 0}, problem), "expected 3 groups, got 2");
  EXPECT_EQ(verify({0, 0, 0}, problem),
            "bucket 2 of 4 bytes may not join 8 bytes");
  EXPECT_EQ(verify({0, 1, 0}, problem),
            "bucket 2 is in group 0, after group 1");
  EXPECT_EQ(verify({0, 2, 3}, problem),
            "bucket 1 is in group 2, after group 0");
}

TEST(MergeBuckets, LeavesAllWithoutALimit) {
  EXPECT_EQ(mergeBuckets({{0, 1, 1}}).groups, (Groups{0, 1, 2}));
  EXPECT_EQ(mergeBuckets({}).groups, Groups());
}

TEST(MergeBuckets, FillsUpToTheLimit) {
  EXPECT_EQ(mergeBuckets({{3, 3, 2, 9, 1, 7, 1}, 8}).groups,
            (Groups{0, 0, 0, 1, 2, 2, 3}));
}

TEST(MergeBuckets, DoesNotOverflow) {
  EXPECT_EQ(mergeBuckets({{INT64_MAX, INT64_MAX, 1}, INT64_MAX}).groups,
            (Groups{0, 1, 2}));
}

using Limits = llvm::SmallVector<int64_t>;

TEST(FindLimits, DoublesUntilAllAreOne) {
  MergingChoice choice{{{10, 10, 10, 10, 10, 10, 10, 10}}, 1000, 1, 0};
  EXPECT_EQ(findLimits(choice), (Limits{20, 40, 80}));
  choice.most = 79;
  EXPECT_EQ(findLimits(choice), (Limits{20, 40}));
}

/// Eight buckets become 4, 2 and 1: each step makes fewer of them fewer.
TEST(FindLimits, LeavesOutWhatSavesTooLittle) {
  MergingChoice choice{{{10, 10, 10, 10, 10, 10, 10, 10}}, 1000, 1e-5, 2e-5};
  EXPECT_EQ(findLimits(choice), (Limits{20, 40}));
  choice.worth = 4.5e-5;
  EXPECT_EQ(findLimits(choice), (Limits{40}));
  choice.worth = 1;
  EXPECT_EQ(findLimits(choice), Limits());
}

/// Adapters beside large frozen buckets: limits for either, in one order.
TEST(FindLimits, TakesKindsTogether) {
  MergingChoice choice{{{8, 8, 8}, {1000, 1000}}, 10'000, 1, 0};
  EXPECT_EQ(findLimits(choice), (Limits{16, 32, 2000}));
}

TEST(FindLimits, HasNoneForSingleOrEmptyBuckets) {
  EXPECT_EQ(findLimits({{{10}, {}, {0, 0}}, 1000, 1, 0}), Limits());
  int64_t large = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(findLimits({{{large, large}}, large, 1, 0}), Limits());
}

TEST(MergeBuckets, VerifiesOnRandomProblems) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    MergingProblem problem;
    problem.limit = random() % 3 ? random() % 5000 : 0;
    for (size_t i = 0, count = random() % 40; i < count; ++i)
      problem.bytes.push_back(random() % 3000);
    ASSERT_EQ(check(problem), "");
    ASSERT_EQ(verify(mergeBuckets(problem).groups, problem), "") << round;
  }
}
