// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/States/StatePlacement.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

StatePlacementProblem makeProblem(int64_t needed) {
  StatePlacementProblem problem;
  problem.buckets = {{100, 1.0}, {40, 0.4}, {60, 0.6}, {0, 0}, {25, 0.5}};
  problem.needed = needed;
  return problem;
}

std::string failureOf(llvm::Error error) { return toString(std::move(error)); }

/// Returns the bytes that leave, of a solution that its check accepts.
int64_t move(const StatePlacementProblem &problem) {
  EXPECT_EQ(failureOf(problem.check()), "");
  StatePlacement placed = placeStates(problem);
  EXPECT_EQ(failureOf(placed.verify(problem)), "");
  return placed.countBytes(problem);
}

TEST(StatePlacement, NothingMovesIfNothingMust) {
  EXPECT_EQ(move(makeProblem(0)), 0);
}

TEST(StatePlacement, MovesFewBytes) {
  EXPECT_EQ(move(makeProblem(1)), 25);
  EXPECT_EQ(move(makeProblem(41)), 60);
  EXPECT_EQ(move(makeProblem(100)), 100);
  EXPECT_EQ(move(makeProblem(101)), 125);
  EXPECT_EQ(move(makeProblem(200)), 200);
}

TEST(StatePlacement, TheCheapestOfEqualSizeMoves) {
  StatePlacementProblem problem;
  problem.buckets = {{50, 2.0}, {50, 1.0}, {50, 3.0}};
  problem.needed = 50;
  EXPECT_EQ(placeStates(problem).isOnHost,
            (llvm::SmallVector<bool>{false, true, false}));
}

TEST(StatePlacement, AllMoveIfAllAreTooFew) {
  EXPECT_EQ(move(makeProblem(1000)), 225);
}

TEST(StatePlacement, RefusesWhatIsWrong) {
  StatePlacementProblem problem = makeProblem(-1);
  EXPECT_NE(failureOf(problem.check()), "");
  problem = makeProblem(50);
  StatePlacement placed;
  placed.isOnHost = {false, true, false, false, false};
  EXPECT_EQ(failureOf(placed.verify(problem)),
            "expected 50 bytes to leave the device, got 40");
  placed.isOnHost = {true, true, false, false, false};
  EXPECT_EQ(failureOf(placed.verify(problem)),
            "states of 40 bytes could stay on the device");
}

} // namespace
