// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/ArenaPacking.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>
#include <string>

using namespace fcdp;

namespace {
std::string check(const PackingProblem &problem) {
  return llvm::toString(problem.check());
}
std::string verify(const PackingSolution &solution,
                   const PackingProblem &problem) {
  return llvm::toString(solution.verify(problem));
}

/// Makes a step of `layers` layers. Each layer gathers a buffer in the forward
/// pass and again in the backward pass, and packs a gradient that lives into
/// the next layer.
PackingProblem makeStep(int64_t layers, std::mt19937 &random) {
  std::uniform_int_distribution<int64_t> size(1, 1 << 20);
  PackingProblem problem;
  for (int64_t layer = 0; layer < layers; ++layer) {
    int64_t bytes = size(random);
    int64_t forward = 10 * layer, backward = 10 * (2 * layers - layer);
    problem.buffers.push_back({bytes, forward, forward + 12});
    problem.buffers.push_back({bytes, backward, backward + 12});
    problem.buffers.push_back({bytes, backward + 9, backward + 19});
    problem.buffers.push_back({bytes, backward + 9, backward + 19});
  }
  return problem;
}
} // namespace

TEST(PackingProblem, AcceptsGoodBuffers) {
  EXPECT_EQ(check({{}, 256}), "");
  EXPECT_EQ(check({{{0, 0, 1}, {5, -3, 7}}, 1}), "");
}

TEST(PackingProblem, RefusesBadAlignment) {
  EXPECT_EQ(check({{}, 0}), "alignment must be a power of two");
  EXPECT_EQ(check({{}, -256}), "alignment must be a power of two");
  EXPECT_EQ(check({{}, 48}), "alignment must be a power of two");
}

TEST(PackingProblem, RefusesBadBuffers) {
  EXPECT_EQ(check({{{-1, 0, 1}}, 256}), "buffer of -1 bytes lives in [0, 1)");
  EXPECT_EQ(check({{{8, 2, 2}}, 256}), "buffer of 8 bytes lives in [2, 2)");
  EXPECT_EQ(check({{{8, 3, 2}}, 256}), "buffer of 8 bytes lives in [3, 2)");
  EXPECT_EQ(check({{{8, 0, 1, 256}}, 256}), "");
  EXPECT_EQ(check({{{8, 0, 1, 128}}, 256}),
            "buffer of 8 bytes has to be at 128, which is no multiple of 256");
}

TEST(PackingSolution, RefusesBadOffsets) {
  PackingProblem problem{{{100, 0, 2}, {100, 1, 3}, {100, 2, 4}}, 256};
  EXPECT_EQ(verify({{0, 256, 0}, 512}, problem), "");
  EXPECT_EQ(verify({{0, 256}, 512}, problem), "expected 3 offsets, got 2");
  EXPECT_EQ(verify({{0, 0, 0}, 512}, problem), "buffers 0 and 1 overlap");
  EXPECT_EQ(verify({{0, 256, 256}, 512}, problem), "buffers 1 and 2 overlap");
  EXPECT_EQ(verify({{0, 128, 0}, 512}, problem),
            "buffer 1 is misplaced at 128 of 512");
  EXPECT_EQ(verify({{0, -256, 0}, 512}, problem),
            "buffer 1 is misplaced at -256 of 512");
  EXPECT_EQ(verify({{0, 256, 0}, 300}, problem),
            "buffer 1 is misplaced at 256 of 300");
  problem.buffers[2].offset = 256;
  EXPECT_EQ(verify({{256, 0, 256}, 512}, problem), "");
  EXPECT_EQ(verify({{0, 256, 0}, 512}, problem),
            "buffer 2 is misplaced at 0 of 512");
}

TEST(PackArena, ReusesMemoryAfterTheEnd) {
  PackingProblem problem{{{100, 0, 2}, {100, 2, 4}}, 256};
  PackingSolution solution = packArena(problem);
  EXPECT_EQ(solution.offsets[0], solution.offsets[1]);
  EXPECT_EQ(solution.peak, 256);
}

TEST(PackArena, PlacesAroundWhatHasItsPlace) {
  // A buffer that lives at both ends, but not in between.
  PackingProblem problem{
      {{256, 0, 2, 0}, {256, 6, 8, 0}, {512, 1, 4}, {256, 2, 6}, {100, 7, 8}},
      256};
  PackingSolution solution = packArena(problem);
  EXPECT_EQ(verify(solution, problem), "");
  EXPECT_EQ(solution.offsets[3], 0);
  EXPECT_EQ(solution.peak, 768);
  PackingProblem fixed{{{256, 0, 2, 512}}, 256};
  EXPECT_EQ(packArena(fixed).offsets[0], 512);
  EXPECT_EQ(packArena(fixed).peak, 768);
  EXPECT_EQ(lowerBound(fixed), 768);
  PackingProblem apart{{{256, 0, 2, 0}, {256, 1, 3, 0}}, 256};
  EXPECT_EQ(verify(packArena(apart), apart), "buffers 0 and 1 overlap");
}

TEST(PackArena, NeedsNothingForNothing) {
  EXPECT_EQ(packArena({{}, 256}).peak, 0);
  PackingProblem empty{{{0, 0, 9}, {300, 0, 9}, {0, 2, 3}}, 256};
  PackingSolution solution = packArena(empty);
  EXPECT_EQ(verify(solution, empty), "");
  EXPECT_EQ(solution.peak, 512);
}

TEST(PackArena, VerifiesOnRandomProblems) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    PackingProblem problem;
    problem.alignment = int64_t(1) << (random() % 10);
    for (size_t i = 0, count = random() % 60; i < count; ++i) {
      int64_t begin = random() % 40;
      problem.buffers.push_back(
          {static_cast<int64_t>(random() % 5000), begin,
           begin + 1 + static_cast<int64_t>(random() % 20)});
    }
    ASSERT_EQ(check(problem), "");
    PackingSolution solution = packArena(problem);
    ASSERT_EQ(verify(solution, problem), "") << "round " << round;
    ASSERT_LE(lowerBound(problem), solution.peak) << "round " << round;
  }
}

/// Makes the activations of `layers` layers. Each layer keeps values for the
/// backward pass and uses temporary values in both passes.
static PackingProblem makeActivations(int64_t layers, std::mt19937 &random) {
  std::uniform_int_distribution<int64_t> size(1, 1 << 16), life(1, 6);
  PackingProblem problem;
  problem.alignment = 64;
  for (int64_t layer = 0; layer < layers; ++layer) {
    int64_t forward = 10 * layer, backward = 10 * (2 * layers - layer);
    for (int64_t i = 0; i < 6; ++i) {
      problem.buffers.push_back({size(random), forward + i, backward + i});
      for (int64_t begin : {forward + i, backward + i})
        problem.buffers.push_back({size(random), begin, begin + life(random)});
    }
  }
  return problem;
}

static double loss(const PackingProblem &problem) {
  return static_cast<double>(packArena(problem).peak) /
         static_cast<double>(lowerBound(problem));
}

/// Checks the loss to gaps relative to the lower bound of any packing.
TEST(PackArena, LosesLittleToFragmentation) {
  std::mt19937 random(1);
  double gathers = 1, activations = 1;
  for (int round = 0; round < 50; ++round) {
    gathers = std::max(gathers, loss(makeStep(32, random)));
    activations = std::max(activations, loss(makeActivations(8, random)));
  }
  EXPECT_LT(gathers, 1.05);
  EXPECT_LT(activations, 1.05);
}

/// A sequence of steps needs as much memory as the larger one alone. The
/// runtime places all functions of a step at once, the compiler one by one.
TEST(PackArena, PlacesGroupsApart) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    PackingProblem first = makeActivations(4, random);
    PackingProblem second = makeActivations(5, random);
    PackingProblem both = first;
    for (PackingProblem::Buffer buffer : second.buffers)
      both.buffers.push_back(
          {buffer.bytes, buffer.begin + 1000, buffer.end + 1000});
    PackingSolution solution = packArena(both);
    ASSERT_EQ(verify(solution, both), "");
    EXPECT_EQ(solution.peak,
              std::max(packArena(first).peak, packArena(second).peak));
  }
}

TEST(PackArena, PlacesThousands) {
  std::mt19937 random(1);
  PackingProblem problem = makeActivations(300, random);
  PackingSolution solution = packArena(problem);
  EXPECT_EQ(verify(solution, problem), "");
  EXPECT_LT(loss(problem), 1.05);
}

TEST(PackArenaQuickly, TriesFewOrders) {
  std::mt19937 random(3);
  int64_t most = 0;
  for (int round = 0; round < 40; ++round) {
    PackingProblem problem = makeActivations(1 + round, random);
    PackingSolution quick = packArenaQuickly(problem);
    PackingSolution full = packArena(problem);
    EXPECT_EQ(verify(quick, problem), "");
    EXPECT_LE(quick.attempts, 4) << round; // there is one group
    EXPECT_GE(quick.peak, full.peak) << round;
    if (quick.peak == lowerBound(problem)) {
      EXPECT_EQ(quick.offsets, full.offsets) << round;
      EXPECT_EQ(quick.attempts, full.attempts) << round;
    }
    most = std::max(most, full.attempts);
  }
  EXPECT_GT(most, 16);
}
