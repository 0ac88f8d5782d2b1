// SPDX-License-Identifier: Apache-2.0
#include "fcdp/Planning/Loss/LossPlanning.h"

#include "gtest/gtest.h"

using namespace fcdp;

using Head = LossProblem::Head;
using Rows = LossProblem::Rows;

namespace {

constexpr int64_t kMiB = int64_t(1) << 20, kGiB = int64_t(1) << 30;

/// Bytes that move, at an A100's ratio of products to bytes.
double costOf(const LossShape &shape) {
  double logits = double(shape.rows) * shape.vocabulary;
  double products = shape.block != 0 ? 4 : 3;
  double chunks = double(shape.rows) / shape.chunk;
  double sums = shape.block != 0 ? 0 : 8.0 * shape.vocabulary * shape.hidden;
  return products * 2 * logits * shape.hidden / 156 + 44 * logits +
         (chunks - 1) * sums;
}

/// The head of Llama 3 8B for 8,192 tokens, and 20 GiB of other results.
LossProblem getLlama() {
  LossProblem problem;
  LossShape &shape = problem.shape;
  shape.rows = 8192;
  shape.vocabulary = 128256;
  shape.hidden = 4096;
  shape.modelBytes = 2;
  shape.isCast = true;
  shape.trainsHidden = shape.trainsWeight = true;
  problem.otherPeak = 20 * kGiB;
  problem.atLoss = 19 * kGiB;
  problem.wholePeak = 31 * kGiB;
  problem.states = 10 * kGiB;
  problem.wholeCost = costOf(problem.getShape({8192, 0}));
  problem.getCost = costOf;
  return problem;
}

LossSolution plan(const LossProblem &problem) {
  EXPECT_EQ(toString(problem.check()), "");
  LossSolution solution = planLoss(problem);
  EXPECT_EQ(toString(solution.verify(problem)), "");
  return solution;
}

TEST(LossPlanningTest, LogitsThatDecideThePeakAreComputedInChunks) {
  LossProblem problem = getLlama();
  LossSolution solution = plan(problem);
  EXPECT_GE(solution.chunk.rows, 64);
  EXPECT_LT(solution.chunk.rows, 1024);
  EXPECT_GE(solution.peak, 20 * kGiB);
  EXPECT_LT(solution.peak, 21 * kGiB);
  EXPECT_EQ(solution.reason.rfind("the peak of results falls from 33.3 GB", 0),
            0U)
      << solution.reason;
}

TEST(LossPlanningTest, OtherLossesStayWhole) {
  LossProblem problem = getLlama();
  problem.otherPeak = problem.wholePeak;
  LossSolution solution = plan(problem);
  EXPECT_EQ(solution.chunk.rows, 0);
  EXPECT_EQ(solution.reason, "chunks need 0 B less of 33.3 GB at the peak");
}

TEST(LossPlanningTest, ABudgetDemandsChunks) {
  LossProblem problem = getLlama();
  problem.otherPeak = problem.wholePeak - 50 * kMiB;
  problem.budget = problem.states + problem.wholePeak - 10 * kMiB;
  LossSolution solution = plan(problem);
  EXPECT_GT(solution.chunk.rows, 0);
  EXPECT_LE(problem.states + solution.peak, *problem.budget);
  // The sum over chunks needs less time than blocks, and fits.
  EXPECT_EQ(solution.chunk.block, 0);
  EXPECT_EQ(solution.reason.rfind("the whole loss needs at least 44 GB", 0), 0U)
      << solution.reason;
  // Nothing fits.
  problem.budget = 5 * kGiB;
  solution = plan(problem);
  EXPECT_GT(solution.chunk.rows, 0);
  EXPECT_NE(solution.reason.find("and these chunks"), std::string::npos);
}

TEST(LossPlanningTest, TheHeadsGradientIsASumOrBlocks) {
  LossProblem problem = getLlama();
  problem.rows = Rows::Given;
  problem.shape.chunk = 256;
  // Alone, the sum of 2.1 GB decides the peak.
  problem.otherPeak = problem.atLoss;
  LossSolution solution = plan(problem);
  EXPECT_EQ(solution.chunk.rows, 256);
  EXPECT_EQ(solution.chunk.block, 3968);
  problem.head = Head::Sum;
  EXPECT_EQ(plan(problem).chunk.block, 0);
  // Memory that is free costs nothing.
  problem.head = Head::Auto;
  problem.budget = 100 * kGiB;
  problem.shape.chunk = 2048;
  EXPECT_EQ(plan(problem).chunk.block, 0);
  problem.head = Head::Blocks;
  EXPECT_EQ(plan(problem).chunk.block, 32064 / 64 * 64);
  // A model in f32 has no sum apart.
  problem.shape.modelBytes = 4;
  EXPECT_EQ(plan(problem).chunk.block, 0);
}

TEST(LossPlanningTest, ExpensiveChunksAreNotTaken) {
  LossProblem problem = getLlama();
  problem.wholeCost /= 2;
  LossSolution solution = plan(problem);
  EXPECT_EQ(solution.chunk.rows, 0);
  EXPECT_EQ(solution.reason.rfind("chunks cost 2.", 0), 0U) << solution.reason;
}

TEST(LossPlanningTest, WrongNumbersAreNamed) {
  LossProblem problem = getLlama();
  LossSolution solution = plan(problem);
  solution.peak += 1;
  EXPECT_NE(toString(solution.verify(problem)), "");
  solution = plan(problem);
  solution.chunk.rows += 8;
  EXPECT_NE(toString(solution.verify(problem)), "");
  problem.wholePeak = 0;
  EXPECT_NE(toString(problem.check()), "");
}

} // namespace
