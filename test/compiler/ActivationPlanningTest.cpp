// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Activations/ActivationProblem.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

/// Twenty operations of a second, of which the first ten are the forward pass.
ActivationProblem makeProblem() {
  ActivationProblem problem;
  problem.seconds.assign(20, 1);
  return problem;
}

std::string check(const ActivationProblem &problem) {
  return llvm::toString(problem.check());
}

ActivationSolution place(const ActivationProblem &problem) {
  llvm::SmallVector<bool> all(problem.values.size(), true);
  ActivationSolution solution = placeMoves(problem, all);
  EXPECT_EQ(llvm::toString(solution.verify(problem)), "");
  return solution;
}

TEST(ActivationPlanning, HiddenCopiesAreLate) {
  ActivationProblem problem = makeProblem();
  // Made by operation 0, copied from 1 to 3, and read again at 19.
  problem.values.push_back({100, 0, 1, 19, 2, 4});
  ActivationSolution solution = place(problem);
  EXPECT_EQ(solution.moves[0].dropped, 3u);
  // A quarter more than 4 s before 19.
  EXPECT_EQ(solution.moves[0].loaded, 14u);
  EXPECT_EQ(solution.exposedSeconds, 0);
  EXPECT_EQ(solution.storedBytes, 100);
}

TEST(ActivationPlanning, ValuesAreDroppedAfterTheirLastUse) {
  ActivationProblem problem = makeProblem();
  problem.values.push_back({100, 0, 7, 19, 2, 1});
  EXPECT_EQ(place(problem).moves[0].dropped, 8u);
}

TEST(ActivationPlanning, CopiesOfAStreamFollowEachOther) {
  ActivationProblem problem = makeProblem();
  problem.values.push_back({100, 0, 0, 19, 3, 2});
  problem.values.push_back({100, 1, 1, 18, 3, 2});
  ActivationSolution solution = place(problem);
  EXPECT_EQ(solution.moves[0].dropped, 4u);
  EXPECT_EQ(solution.moves[1].dropped, 7u);
  // The second value's load is complete when the first one's begins.
  EXPECT_EQ(solution.moves[0].loaded, 16u);
  EXPECT_EQ(solution.moves[1].loaded, 14u);
  EXPECT_EQ(solution.exposedSeconds, 0);
}

TEST(ActivationPlanning, SlowCopiesAreExposed) {
  ActivationProblem problem = makeProblem();
  problem.values.push_back({100, 5, 6, 12, 8, 1});
  ActivationSolution solution = place(problem);
  EXPECT_EQ(solution.moves[0].dropped, 11u);
  EXPECT_EQ(solution.moves[0].loaded, 12u);
  // Compute waits from 11 to 14 for the store, and for the load.
  EXPECT_EQ(solution.moves[0].exposedSeconds, 3 + 3);
}

TEST(ActivationPlanning, AValueWithoutTimeBetweenStays) {
  ActivationProblem problem = makeProblem();
  problem.values.push_back({100, 8, 9, 10, 0.1, 0.1});
  ActivationSolution solution = place(problem);
  EXPECT_EQ(solution.countStored(), 0u);
  EXPECT_EQ(solution.storedBytes, 0);
}

TEST(ActivationPlanning, OnlyHiddenValuesAreChosen) {
  ActivationProblem problem = makeProblem();
  // The link can hide one of the first two, and the last one never.
  problem.values.push_back({100, 0, 0, 19, 6, 6});
  problem.values.push_back({100, 1, 1, 18, 6, 6});
  problem.values.push_back({100, 8, 8, 11, 6, 6});
  llvm::SmallVector<bool> chosen = chooseHidden(problem);
  EXPECT_EQ(chosen, (llvm::SmallVector<bool>{true, false, false}));
  EXPECT_EQ(placeMoves(problem, chosen).exposedSeconds, 0);
  llvm::SmallVector<size_t> order = orderByExposure(problem);
  EXPECT_EQ(order, (llvm::SmallVector<size_t>{0, 1, 2}));
}

TEST(ActivationPlanning, CheaperBytesFollowFirst) {
  ActivationProblem problem = makeProblem();
  problem.values.push_back({10, 7, 7, 12, 9, 1});
  problem.values.push_back({100000, 8, 8, 12, 9, 1});
  EXPECT_EQ(orderByExposure(problem), (llvm::SmallVector<size_t>{1, 0}));
}

TEST(ActivationPlanning, ProblemsAreChecked) {
  ActivationProblem problem = makeProblem();
  problem.values.push_back({100, 3, 4, 12, 1, 1});
  EXPECT_EQ(check(problem), "");
  auto with = [&](auto change) {
    ActivationProblem other = problem;
    change(other);
    return check(other);
  };
  EXPECT_EQ(with([](auto &p) { p.seconds[2] = -1; }),
            "expected times of operations from 0 on, got -1");
  EXPECT_EQ(with([](auto &p) { p.values[0].bytes = 0; }),
            "value 0: expected bytes and times of copies");
  EXPECT_EQ(with([](auto &p) { p.values[0].storeSeconds = -1; }),
            "value 0: expected bytes and times of copies");
  EXPECT_EQ(with([](auto &p) { p.values.push_back({100, 1, 4, 12, 1, 1}); }),
            "value 1: expected values in the order in which they are made");
  for (auto uses : {std::pair(2, 12), {4, 4}, {4, 20}})
    EXPECT_EQ(with([&](auto &p) {
                p.values[0].lastForward = uses.first;
                p.values[0].firstBackward = uses.second;
              }),
              "value 0: expected its uses after the operation that makes it, "
              "those of the forward pass first");
}

TEST(ActivationPlanning, SolutionsAreVerified) {
  ActivationProblem problem = makeProblem();
  problem.values.push_back({100, 3, 4, 12, 1, 1});
  auto with = [&](auto change) {
    ActivationSolution solution = place(problem);
    change(solution);
    return llvm::toString(solution.verify(problem));
  };
  EXPECT_EQ(with([](auto &s) { s.moves[0].dropped = 4; }),
            "value 0 is dropped before operation 4 and loaded before "
            "operation 10");
  EXPECT_EQ(with([](auto &s) { s.moves[0].loaded = s.moves[0].dropped; }),
            "value 0 is dropped before operation 5 and loaded before "
            "operation 5");
  EXPECT_EQ(with([](auto &s) { s.moves[0].loaded = 13; }),
            "value 0 is dropped before operation 5 and loaded before "
            "operation 13");
  EXPECT_EQ(with([](auto &s) { s.storedBytes = 1; }),
            "expected sums of 100 bytes and 0 seconds");
  EXPECT_EQ(with([](auto &s) { s.moves.clear(); }), "expected 1 values, got 0");
}

} // namespace
