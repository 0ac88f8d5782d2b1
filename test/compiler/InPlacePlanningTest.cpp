// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/InPlacePlanning.h"

#include "gtest/gtest.h"

#include <random>
#include <string>

using namespace fcdp;

namespace {
std::string check(const InPlaceProblem &problem) {
  return llvm::toString(problem.check());
}
std::string verify(const InPlaceSolution &solution,
                   const InPlaceProblem &problem) {
  return llvm::toString(solution.verify(problem));
}
using Begins = std::vector<int64_t>;
} // namespace

TEST(InPlaceProblem, RefusesBadNumbers) {
  EXPECT_EQ(check({{0, 0}, 0, {{1, 1, {{0, 1}}}}}), "");
  EXPECT_EQ(check({{0, 0}, 0, {{-1, 1, {}}}}), "bucket 0 has -1 bytes");
  EXPECT_EQ(check({{0, 0}, 0, {{1, 1, {{0, -1}}}}}),
            "a gradient of bucket 0 has -1 bytes");
  EXPECT_EQ(check({{0, 0}, 0, {{1, 2, {}}}}),
            "bucket 0 is packed at 2; expected a position from 0 to 1");
  EXPECT_EQ(check({{0, 0}, 0, {{1, 1, {}}, {1, 0, {}}}}),
            "bucket 1 is packed at 0; expected a position from 1 to 1");
  std::string made = "a gradient of bucket 0 is made at ";
  std::string order = "; expected ascending positions in front of ";
  EXPECT_EQ(check({{0, 0, 0, 0}, 0, {{1, 3, {{2, 1}, {2, 1}}}}}),
            made + "2" + order + "3");
  EXPECT_EQ(check({{0, 0}, 0, {{1, 1, {{1, 1}}}}}), made + "1" + order + "1");
}

/// A bucket of 4 bytes, whose two gradients of 2 bytes are made at 1 and 3 and
/// used until 4.
TEST(PlanInPlace, BeginsWhereThereIsRoom) {
  InPlaceProblem problem{{0, 2, 2, 4, 8, 4}, 8, {{4, 4, {{1, 2}, {3, 2}}}}};
  EXPECT_EQ(planInPlace(problem).begins, Begins{1});
  EXPECT_EQ(planInPlace(problem).peak, 4);
  problem.inUse[2] = 7;
  problem.limit = 9;
  EXPECT_EQ(planInPlace(problem).begins, Begins{1});
  problem.limit = 8;
  EXPECT_EQ(planInPlace(problem).begins, Begins{3});
  EXPECT_EQ(planInPlace(problem).peak, 7);
}

/// If more memory than the limit is in use anyway, the bucket begins where it
/// adds the least, and not early without need.
TEST(PlanInPlace, TakesNoMoreOverTheLimit) {
  InPlaceProblem problem{{0, 2, 7, 4, 8, 4}, 0, {{4, 4, {{1, 2}, {3, 2}}}}};
  EXPECT_EQ(planInPlace(problem).begins, Begins{3});
  problem.inUse[2] = 9;
  EXPECT_EQ(planInPlace(problem).begins, Begins{4});
  EXPECT_EQ(planInPlace(problem).peak, 9);
}

/// Memory that one bucket takes is not available to the next one.
TEST(PlanInPlace, CountsBucketsTogether) {
  InPlaceProblem problem{
      {0, 0, 1, 1, 1, 1}, 7, {{4, 3, {{0, 0}}}, {4, 5, {{2, 1}, {3, 0}}}}};
  EXPECT_EQ(planInPlace(problem).begins, (Begins{0, 3}));
  problem.limit = 8;
  EXPECT_EQ(planInPlace(problem).begins, (Begins{0, 2}));
}

TEST(InPlaceSolution, VerifyRefusesWhatDoesNotFit) {
  InPlaceProblem problem{{0, 3, 1, 1}, 5, {{4, 3, {{0, 0}, {2, 1}}}}};
  EXPECT_EQ(verify({{2}, 4}, problem), "");
  EXPECT_EQ(verify({{}, 0}, problem), "expected 1 begins, got 0");
  EXPECT_EQ(verify({{1}, 4}, problem),
            "bucket 0 begins at 1, where none of its gradients is made");
  EXPECT_EQ(verify({{2}, 3}, problem), "expected a peak of 4 bytes, got 3");
  EXPECT_EQ(
      verify({{0}, 7}, problem),
      "7 bytes are in use at once, of 5, and 3 with all gradients copied");
}

TEST(PlanInPlace, VerifiesOnRandomProblems) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    InPlaceProblem problem;
    problem.limit = random() % 300;
    int64_t count = 2 + random() % 60;
    for (int64_t i = 0; i < count; ++i)
      problem.inUse.push_back(random() % 300);
    for (int64_t packed = 0; (packed += 1 + random() % 9) < count;) {
      InPlaceProblem::Bucket bucket{
          static_cast<int64_t>(random() % 200), packed, {}};
      for (int64_t made = 0; made < packed; made += 1 + random() % 5) {
        auto bytes = static_cast<int64_t>(random() % 50);
        bucket.gradients.push_back({made, bytes});
        for (int64_t at = made; at <= packed; ++at)
          problem.inUse[at] += bytes;
      }
      problem.buckets.push_back(bucket);
    }
    ASSERT_EQ(check(problem), "");
    ASSERT_EQ(verify(planInPlace(problem), problem), "") << round;
  }
}
