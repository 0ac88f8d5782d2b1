// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Buckets/LayoutPlanning.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>

using namespace fcdp;

namespace {
std::string check(const LayoutProblem &problem) {
  return llvm::toString(problem.check());
}
std::string verify(const LayoutSolution &solution,
                   const LayoutProblem &problem) {
  return llvm::toString(solution.verify(problem));
}

/// Finds offsets of the tensors from `offsets.size()` on by exhaustive search.
bool searchOffsets(const LayoutProblem &problem, LayoutSolution &solution) {
  size_t index = solution.offsets.size();
  if (index == problem.tensors.size())
    return verify(solution, problem).empty();
  int64_t begin = index == 0 ? 0
                             : solution.offsets.back() +
                                   problem.tensors[index - 1].elements;
  int64_t end = problem.devices * solution.shardElements;
  for (int64_t at = begin; at + problem.tensors[index].elements <= end; ++at) {
    LayoutProblem prefix = problem;
    prefix.tensors.truncate(index + 1);
    solution.offsets.push_back(at);
    if (verify(solution, prefix).empty() && searchOffsets(problem, solution))
      return true;
    solution.offsets.pop_back();
  }
  return false;
}

/// Returns the least shard size of all layouts.
int64_t searchShard(const LayoutProblem &problem) {
  for (int64_t shard = 0;; shard += problem.shardAlignment) {
    LayoutSolution solution{{}, shard};
    if (searchOffsets(problem, solution))
      return shard;
  }
}

/// Returns a tensor of `shape` in blocks of `rows` rows of its last dimension.
LayoutProblem::Tensor rowsOf(std::initializer_list<int64_t> shape,
                             int64_t rows) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  int64_t row = shape.size() == 1 ? 1 : *std::prev(shape.end());
  return {elements, rows * row};
}

using Tensors = llvm::SmallVector<LayoutProblem::Tensor>;

/// A decoder layer of Llama 3 8B, from table 3 of arXiv 2407.21783.
Tensors makeLlamaLayer(int64_t rows) {
  return {rowsOf({4096, 4096}, rows),  rowsOf({1024, 4096}, rows),
          rowsOf({1024, 4096}, rows),  rowsOf({4096, 4096}, rows),
          rowsOf({14336, 4096}, rows), rowsOf({14336, 4096}, rows),
          rowsOf({4096, 14336}, rows), rowsOf({4096}, rows),
          rowsOf({4096}, rows)};
}

/// A decoder layer of GPT-OSS with 32 (20B) or 128 experts (120B), with shapes
/// as in Transformers: experts are stacks of matrices.
Tensors makeGptOssLayer(int64_t experts, int64_t rows) {
  return {rowsOf({64}, rows),
          rowsOf({4096, 2880}, rows),
          rowsOf({4096}, rows),
          rowsOf({512, 2880}, rows),
          rowsOf({512}, rows),
          rowsOf({512, 2880}, rows),
          rowsOf({512}, rows),
          rowsOf({2880, 4096}, rows),
          rowsOf({2880}, rows),
          rowsOf({experts, 2880}, rows),
          rowsOf({experts}, rows),
          rowsOf({experts, 2880, 5760}, rows),
          rowsOf({experts, 5760}, rows),
          rowsOf({experts, 2880, 2880}, rows),
          rowsOf({experts, 2880}, rows),
          rowsOf({2880}, rows),
          rowsOf({2880}, rows)};
}

/// Returns padding over stored elements for shards of `shard` elements.
double padding(const LayoutProblem &problem, int64_t shard) {
  int64_t used = 0;
  for (const LayoutProblem::Tensor &tensor : problem.tensors)
    used += tensor.elements;
  double stored = static_cast<double>(problem.devices * shard);
  return 1 - static_cast<double>(used) / stored;
}

/// Makes a problem with bf16 members at multiples of 64 bytes.
LayoutProblem makeProblem(Tensors tensors, int64_t devices) {
  return {std::move(tensors), devices, 32, 32};
}

/// Plans on 8 to 1024 devices. Padding is below 3% if any layout allows that.
/// For the numbers of devices in `hopeless` no layout does.
void expectLittlePadding(const Tensors &tensors,
                         llvm::ArrayRef<int64_t> hopeless) {
  for (int64_t devices = 8; devices <= 1024; devices *= 2) {
    LayoutProblem problem = makeProblem(tensors, devices);
    ASSERT_EQ(check(problem), "");
    LayoutSolution solution = planLayout(problem);
    ASSERT_EQ(verify(solution, problem), "") << devices;
    double actual = padding(problem, solution.shardElements);
    double least = padding(problem, leastShard(problem));
    if (llvm::is_contained(hopeless, devices)) {
      EXPECT_GE(least, 0.03) << devices;
      EXPECT_EQ(solution.shardElements, leastShard(problem)) << devices;
    } else {
      EXPECT_LT(actual, 0.03) << devices;
    }
  }
}
} // namespace

TEST(LayoutProblem, RefusesBadNumbers) {
  EXPECT_EQ(check({{{0, 1}, {5, 9}}, 3, 4, 8}), "");
  EXPECT_EQ(check({{}, 0}),
            "expected positive numbers, got 0 devices and alignments 1 and 1");
  EXPECT_EQ(check({{}, 1, -1}),
            "expected positive numbers, got 1 devices and alignments -1 and 1");
  EXPECT_EQ(check({{}, 1, 4, 6}),
            "expected the shards' alignment to be a multiple of 4, got 6");
  EXPECT_EQ(check({{}, 1, 1, int64_t(1) << 60}), "alignments are out of range");
  EXPECT_EQ(check({{{-1, 1}}}), "tensor of -1 elements in blocks of 1");
  EXPECT_EQ(check({{{4, 0}}}), "tensor of 4 elements in blocks of 0");
  EXPECT_EQ(check({{{int64_t(1) << 59}, {int64_t(1) << 59}}}),
            "expected fewer than 2^60 elements");
}

TEST(LayoutSolution, RefusesBadLayouts) {
  // Shards begin at 8 and 16. The second tensor has blocks of 4.
  LayoutProblem problem{{{6, 3}, {12, 4}}, 3, 2, 4};
  EXPECT_EQ(verify({{0, 8}, 8}, problem), "");
  EXPECT_EQ(verify({{0}, 8}, problem), "expected 2 offsets, got 1");
  EXPECT_EQ(verify({{0, 8}, 6}, problem),
            "expected a shard of a multiple of 4 elements, got 6");
  EXPECT_EQ(verify({{0, 4}, 8}, problem), "tensor 1 is misplaced at 4");
  EXPECT_EQ(verify({{0, 7}, 8}, problem), "tensor 1 is misplaced at 7");
  EXPECT_EQ(verify({{0, 14}, 8}, problem), "tensor 1 is misplaced at 14");
  EXPECT_EQ(verify({{0, 6}, 8}, problem),
            "a shard begins inside a block of tensor 1 at 6");
  EXPECT_EQ(verify({{4, 12}, 8}, problem),
            "a shard begins inside a block of tensor 0 at 4");
  // Two boundaries are inside the tensor, and the second one does not meet a
  // block.
  EXPECT_EQ(verify({{0}, 4}, {{{12, 3}}, 3, 1, 4}),
            "a shard begins inside a block of tensor 0 at 0");
  EXPECT_EQ(verify({{1}, 4}, {{{9, 3}}, 3, 1, 4}),
            "a shard begins inside a block of tensor 0 at 1");
}

TEST(PlanLayout, NeedsNothingForNothing) {
  EXPECT_EQ(planLayout({}).shardElements, 0);
  LayoutProblem empty{{{0, 1}, {0, 7}}, 4, 16, 16};
  EXPECT_EQ(verify(planLayout(empty), empty), "");
}

TEST(PlanLayout, CutsAnywhereInBlocksOfOne) {
  LayoutProblem problem{{{20}, {20}}, 4, 16, 16};
  LayoutSolution solution = planLayout(problem);
  EXPECT_EQ(solution.offsets, (llvm::SmallVector<int64_t>{0, 32}));
  EXPECT_EQ(solution.shardElements, 16);
}

TEST(PlanLayout, KeepsWholeTensorsTogether) {
  LayoutProblem problem{{{6, 6}, {4, 4}, {5, 5}, {3, 3}}, 3, 1, 1};
  LayoutSolution solution = planLayout(problem);
  EXPECT_EQ(verify(solution, problem), "");
  EXPECT_EQ(solution.shardElements, 8); // {6} {4} {5, 3}
}

/// For tiny problems of any kind, no layout that keeps the tensors' order is
/// smaller.
TEST(PlanLayout, FindsTheLeastOnTinyProblems) {
  std::mt19937 random(1);
  int harder = 0;
  for (int round = 0; round < 1000; ++round) {
    LayoutProblem problem;
    problem.devices = 1 + random() % 4;
    problem.alignment = 1 + random() % 3;
    problem.shardAlignment = problem.alignment * (1 + random() % 2);
    for (size_t i = 0, count = random() % 5; i < count; ++i)
      problem.tensors.push_back({static_cast<int64_t>(random() % 12),
                                 static_cast<int64_t>(1 + random() % 6)});
    ASSERT_EQ(check(problem), "");
    LayoutSolution solution = planLayout(problem);
    ASSERT_EQ(verify(solution, problem), "") << "round " << round;
    ASSERT_EQ(solution.shardElements, searchShard(problem))
        << "round " << round;
    ASSERT_LE(leastShard(problem), solution.shardElements) << "round " << round;
    harder += leastShard(problem) < solution.shardElements;
  }
  EXPECT_GT(harder, 100);
}

TEST(PlanLayout, VerifiesOnRandomProblems) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int64_t> size(0, 1 << 20), block(1, 1 << 14);
  for (int round = 0; round < 100; ++round) {
    LayoutProblem problem{{}, 1 + static_cast<int64_t>(random() % 300), 16, 32};
    for (size_t i = 0, count = random() % 40; i < count; ++i)
      problem.tensors.push_back({size(random), block(random)});
    LayoutSolution solution = planLayout(problem);
    ASSERT_EQ(verify(solution, problem), "") << "round " << round;
    ASSERT_LE(leastShard(problem), solution.shardElements) << "round " << round;
  }
}

/// Block sizes without a common factor. Their least common multiple is out of
/// range, so shards must be so large that no two of them begin in one tensor.
TEST(PlanLayout, SurvivesBlocksWithoutACommonMultiple) {
  LayoutProblem problem{{}, 1000, 32, 32};
  for (int64_t prime : {999983, 999979, 999961, 999959, 999953})
    problem.tensors.push_back({50 * prime, prime});
  LayoutSolution solution = planLayout(problem);
  EXPECT_EQ(verify(solution, problem), "");
  LayoutProblem huge{{{int64_t(1) << 59, int64_t(1) << 58}}, INT32_MAX, 32, 32};
  ASSERT_EQ(check(huge), "");
  EXPECT_EQ(verify(planLayout(huge), huge), "");
}

// With 16 rows, the down projection has blocks of 16 x 14336 elements and the
// others have blocks of 16 x 4096, so shards are multiples of 458752 elements.
// That is 7.7 % too many for a layer on 64 to 512 devices. On 1024 devices a
// shard has to contain a block of the down projection, which is larger than
// 1/1024 of the layer.
TEST(PlanLayout, PadsLlamaLittle) {
  expectLittlePadding(makeLlamaLayer(1), {1024});
  expectLittlePadding(makeLlamaLayer(16), {64, 128, 256, 512, 1024});
  expectLittlePadding({rowsOf({128256, 4096}, 16)}, {});
}

// Blocks of 16 x 2880, 16 x 4096 and 16 x 5760 elements have a least common
// multiple of 2949120 elements. Shards must be multiples of it if the output
// projection is longer than two shards.
TEST(PlanLayout, PadsGptOssLittle) {
  expectLittlePadding(makeGptOssLayer(128, 16), {1024});
  expectLittlePadding(makeGptOssLayer(32, 16), {256, 512, 1024});
  // 12568 blocks, or 12.3 per device.
  expectLittlePadding({rowsOf({201088, 2880}, 16)}, {1024});
}
