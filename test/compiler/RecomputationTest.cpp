// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Recompute/Recomputation.h"

#include "gtest/gtest.h"

#include <limits>
#include <random>
#include <string>

using namespace fcdp;
using Choice = RecomputationProblem::Choice;

namespace {
std::string check(const RecomputationProblem &problem) {
  return llvm::toString(problem.check());
}
std::string verify(const RecomputationSolution &solution,
                   const RecomputationProblem &problem) {
  return llvm::toString(solution.verify(problem));
}

/// An input that is kept at 8 bytes, an operation that costs 5 and yields 8
/// bytes, and one that costs 1 and yields 32 bytes. Each uses the one before,
/// and all are needed.
RecomputationProblem makeChain() {
  RecomputationProblem problem;
  problem.ops = {
      {3, {}, Choice::Keep}, {5, {0}, Choice::Any}, {1, {1}, Choice::Any}};
  problem.values = {{8, 0, true}, {8, 1, true}, {32, 2, true}};
  return problem;
}

/// Makes `count` operations with random inputs, costs and choices.
RecomputationProblem makeRandom(size_t count, std::mt19937 &random) {
  auto pick = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  RecomputationProblem problem;
  for (size_t index = 0; index < count; ++index) {
    RecomputationProblem::Op op;
    op.cost = static_cast<double>(pick(0, 20));
    op.choice = pick(0, 4) == 0   ? Choice::Keep
                : pick(0, 9) == 0 ? Choice::Recompute
                                  : Choice::Any;
    for (size_t input = 0; input < problem.values.size(); ++input)
      if (pick(0, 3) == 0)
        op.inputs.push_back(input);
    problem.ops.push_back(op);
    for (int64_t results = pick(1, 2); results > 0; --results)
      problem.values.push_back({pick(0, 40), index, pick(0, 1) == 1});
  }
  return problem;
}

/// Calls `callback` with every combination of choices.
template <typename Callback>
void forEachChoice(const RecomputationProblem &problem, Callback callback) {
  size_t count = problem.ops.size();
  for (size_t bits = 0; bits < size_t(1) << count; ++bits) {
    llvm::SmallVector<bool> chosen;
    bool isLegal = true;
    for (size_t index = 0; index < count; ++index) {
      chosen.push_back(bits >> index & 1);
      isLegal &= !chosen[index] || problem.ops[index].choice != Choice::Keep;
    }
    if (isLegal)
      callback(evaluate(problem, chosen));
  }
}
} // namespace

TEST(RecomputationProblem, Checks) {
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check(makeChain()), "");
  RecomputationProblem problem = makeChain();
  problem.values[1].bytes = -1;
  EXPECT_EQ(check(problem), "value 1 has -1 bytes");
  problem = makeChain();
  problem.values[2].producer = 3;
  EXPECT_EQ(check(problem), "value 2 has no producer");
  problem = makeChain();
  problem.ops[1].inputs = {1};
  EXPECT_EQ(check(problem), "operation 1 reads value 1, which is not there");
  problem.ops[1].inputs = {3};
  EXPECT_EQ(check(problem), "operation 1 reads value 3, which is not there");
  problem = makeChain();
  problem.ops[0].cost = std::numeric_limits<double>::infinity();
  EXPECT_NE(check(problem).find("operation 0 costs"), std::string::npos);
  problem.ops[0].cost = -1;
  EXPECT_NE(check(problem).find("operation 0 costs"), std::string::npos);
}

TEST(RecomputationSolution, Verifies) {
  RecomputationProblem problem = makeChain();
  RecomputationSolution solution = evaluate(problem, {false, false, true});
  EXPECT_EQ(solution.keptBytes, 16);
  EXPECT_EQ(solution.cost, 1);
  EXPECT_EQ(verify(solution, problem), "");
  solution.keptBytes = 8;
  EXPECT_EQ(verify(solution, problem),
            "expected 16 bytes kept at a cost of 1.00, got 8 and 1.00");
  solution = evaluate(problem, {true, false, false});
  EXPECT_EQ(verify(solution, problem), "operation 0 must not run again");
  solution = evaluate(problem, {false, true, true});
  problem.values[1].isNeeded = problem.values[2].isNeeded = false;
  EXPECT_EQ(verify(solution, problem), "operation 1 runs again without need");
  problem = makeChain();
  problem.ops[2].choice = Choice::Recompute;
  solution.isRecomputed[2] = false;
  EXPECT_EQ(verify(solution, problem),
            "operation 2 runs again although it was not chosen");
  EXPECT_EQ(verify({}, problem), "expected 3 decisions, got 0");
}

TEST(Recomputation, KeepsWithinTheBudget) {
  RecomputationProblem problem = makeChain();
  EXPECT_EQ(keepWithin(problem, 48).cost, 0);
  EXPECT_EQ(keepWithin(problem, 47).cost, 1);
  EXPECT_EQ(keepWithin(problem, 16).cost, 1);
  EXPECT_EQ(keepWithin(problem, 15).cost, 6);
  EXPECT_EQ(keepWithin(problem, 8).cost, 6);
  // Fewer bytes are not possible.
  EXPECT_EQ(keepWithin(problem, 7).keptBytes, 8);
}

TEST(Recomputation, DoesNotKeepMoreToRecompute) {
  // The last value can be recomputed from a larger one that nothing else needs.
  RecomputationProblem problem;
  problem.ops = {{3, {}, Choice::Keep}, {1, {0}, Choice::Any}};
  problem.values = {{64, 0, false}, {8, 1, true}};
  EXPECT_EQ(keepLeast(problem).keptBytes, 8);
  EXPECT_EQ(keepLeast(problem).cost, 0);
}

// Compares with exhaustive search on small problems.
TEST(Recomputation, KeepsTheLeastAtTheLeastCost) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    RecomputationProblem problem = makeRandom(8, random);
    ASSERT_EQ(check(problem), "");
    RecomputationSolution solution = keepLeast(problem);
    EXPECT_EQ(verify(solution, problem), "");
    int64_t bytes = std::numeric_limits<int64_t>::max();
    double cost = 0;
    forEachChoice(problem, [&](const RecomputationSolution &other) {
      if (std::make_pair(other.keptBytes, other.cost) <
          std::make_pair(bytes, cost)) {
        bytes = other.keptBytes;
        cost = other.cost;
      }
    });
    EXPECT_EQ(solution.keptBytes, bytes);
    EXPECT_EQ(solution.cost, cost);
  }
}

TEST(Recomputation, ComesCloseToTheCheapestWithinABudget) {
  std::mt19937 random(2);
  double made = 0, cheapest = 0;
  for (int round = 0; round < 300; ++round) {
    RecomputationProblem problem = makeRandom(8, random);
    int64_t least = keepLeast(problem).keptBytes;
    int64_t most =
        evaluate(problem, llvm::SmallVector<bool>(8, false)).keptBytes;
    int64_t budget = least + (most - least) / 2;
    RecomputationSolution solution = keepWithin(problem, budget);
    EXPECT_EQ(verify(solution, problem), "");
    EXPECT_LE(solution.keptBytes, budget);
    double best = std::numeric_limits<double>::infinity();
    forEachChoice(problem, [&](const RecomputationSolution &other) {
      if (other.keptBytes <= budget)
        best = std::min(best, other.cost);
    });
    made += solution.cost;
    cheapest += best;
  }
  EXPECT_LE(made, 1.2 * cheapest);
}

// As many operations in one chain as a model of a hundred layers has.
// Both are worth as much a byte, so that no price of a byte keeps one of them.
TEST(Recomputation, FillsTheBudgetWithTheMostExpensiveFirst) {
  RecomputationProblem problem;
  problem.ops = {
      {0, {}, Choice::Keep}, {1, {0}, Choice::Any}, {10, {0}, Choice::Any}};
  problem.values = {{0, 0, true}, {1, 1, true}, {10, 2, true}};
  RecomputationSolution solution = keepWithin(problem, 10);
  EXPECT_EQ(solution.isRecomputed,
            (llvm::SmallVector<bool>{false, true, false}));
  EXPECT_EQ(solution.cost, 1);
  EXPECT_EQ(solution.keptBytes, 10);
}

TEST(Recomputation, ManyOperations) {
  RecomputationProblem problem;
  for (size_t index = 0; index < 10000; ++index) {
    problem.ops.push_back({double(1 + index % 7), {}, Choice::Any});
    if (index > 0)
      problem.ops.back().inputs = {index - 1};
    if (index % 100 == 0)
      problem.ops.back().choice = Choice::Keep;
    problem.values.push_back({int64_t(64 + index % 5), index, index % 3 == 0});
  }
  RecomputationSolution least = keepLeast(problem);
  EXPECT_EQ(verify(least, problem), "");
  RecomputationSolution within = keepWithin(problem, 2 * least.keptBytes);
  EXPECT_EQ(verify(within, problem), "");
  EXPECT_LE(within.keptBytes, 2 * least.keptBytes);
  EXPECT_LT(within.cost, least.cost);
}
