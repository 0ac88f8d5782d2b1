// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Buckets/LayoutPlanning.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>
#include <optional>

using namespace fcdp;
using Tensor = LayoutProblem::Tensor;

/// The limit of elements. Sums and multiples of smaller numbers fit in 63 bits.
static constexpr int64_t kMaxElements = int64_t(1) << 60;
/// The number of tensors that planLayout places while it tries shard sizes one
/// by one, which takes some hundredths of a second.
static constexpr size_t kMaxPlaced = 1 << 20;

static int64_t alignUp(int64_t value, int64_t alignment) {
  return static_cast<int64_t>(llvm::alignTo(value, alignment));
}

/// Returns the least common multiple of positive numbers, or none if it is
/// kMaxElements or more.
static std::optional<int64_t> leastCommonMultiple(int64_t a, int64_t b) {
  std::optional<int64_t> result = llvm::checkedMul(a, b / std::gcd(a, b));
  return result && *result < kMaxElements ? result : std::nullopt;
}

/// Returns the end of the tensors if each directly follows the one before. All
/// of them fit in one shard of this size.
static int64_t packedElements(const LayoutProblem &problem) {
  int64_t end = 0;
  for (const Tensor &tensor : problem.tensors)
    end = alignUp(end, problem.alignment) + tensor.elements;
  return end;
}

/// Returns the end of the last shard.
static int64_t bufferElements(const LayoutProblem &problem, int64_t shard) {
  std::optional<int64_t> end = llvm::checkedMul(shard, problem.devices);
  return std::min(end.value_or(2 * kMaxElements), 2 * kMaxElements);
}

llvm::Error LayoutProblem::check() const {
  if (devices < 1 || alignment < 1 || shardAlignment < 1)
    return llvm::createStringError(
        llvm::formatv("expected positive numbers, got {0} devices and "
                      "alignments {1} and {2}",
                      devices, alignment, shardAlignment));
  if (shardAlignment % alignment != 0)
    return llvm::createStringError(llvm::formatv(
        "expected the shards' alignment to be a multiple of {0}, got {1}",
        alignment, shardAlignment));
  if (shardAlignment >= kMaxElements)
    return llvm::createStringError("alignments are out of range");
  int64_t end = 0;
  for (const Tensor &tensor : tensors) {
    if (tensor.elements < 0 || tensor.block < 1)
      return llvm::createStringError(
          llvm::formatv("tensor of {0} elements in blocks of {1}",
                        tensor.elements, tensor.block));
    end = alignUp(end, alignment);
    if (tensor.elements >= kMaxElements - end)
      return llvm::createStringError("expected fewer than 2^60 elements");
    end += tensor.elements;
  }
  return llvm::Error::success();
}

/// Returns whether shards of size `shard` begin with blocks of `tensor` at
/// `offset`.
static bool respectsBlocks(const Tensor &tensor, int64_t offset,
                           int64_t shard) {
  int64_t end = offset + tensor.elements;
  int64_t boundary = (offset / shard + 1) * shard;
  if (boundary >= end)
    return true;
  if ((boundary - offset) % tensor.block != 0)
    return false;
  return boundary + shard >= end || shard % tensor.block == 0;
}

llvm::Error LayoutSolution::verify(const LayoutProblem &problem) const {
  if (offsets.size() != problem.tensors.size())
    return llvm::createStringError(
        llvm::formatv("expected {0} offsets, got {1}", problem.tensors.size(),
                      offsets.size()));
  if (shardElements < 0 || shardElements % problem.shardAlignment != 0)
    return llvm::createStringError(
        llvm::formatv("expected a shard of a multiple of {0} elements, got {1}",
                      problem.shardAlignment, shardElements));
  int64_t end = 0;
  for (auto [index, tensor] : llvm::enumerate(problem.tensors)) {
    int64_t offset = offsets[index];
    if (offset < end || offset % problem.alignment != 0 ||
        offset + tensor.elements > bufferElements(problem, shardElements))
      return llvm::createStringError(
          llvm::formatv("tensor {0} is misplaced at {1}", index, offset));
    if (tensor.elements != 0 && !respectsBlocks(tensor, offset, shardElements))
      return llvm::createStringError(llvm::formatv(
          "a shard begins inside a block of tensor {0} at {1}", index, offset));
    end = offset + tensor.elements;
  }
  return llvm::Error::success();
}

/// Returns the first place from `from` on, or none. A tensor that fits neither
/// in the rest of a shard nor in the next shard fits nowhere.
static std::optional<int64_t> findPlace(const Tensor &tensor, int64_t from,
                                        int64_t shard, int64_t alignment) {
  int64_t offset = alignUp(from, alignment);
  if (tensor.elements == 0)
    return offset;
  // The steps backwards from a shard's beginning that keep the tensor aligned.
  std::optional<int64_t> step = leastCommonMultiple(tensor.block, alignment);
  for (int64_t boundary = (offset / shard + 1) * shard, i = 0; i < 2;
       ++i, offset = boundary, boundary += shard) {
    if (offset + tensor.elements <= boundary)
      return offset;
    if (!step || boundary - offset < *step)
      continue;
    int64_t across = boundary - (boundary - offset) / *step * *step;
    if (respectsBlocks(tensor, across, shard))
      return across;
  }
  return std::nullopt;
}

/// Places each tensor at its first possible place. Returns none if shards of
/// this size are too small for all tensors.
static std::optional<LayoutSolution> place(const LayoutProblem &problem,
                                           int64_t shard) {
  LayoutSolution solution{{}, shard};
  int64_t end = 0;
  for (const Tensor &tensor : problem.tensors) {
    std::optional<int64_t> offset =
        findPlace(tensor, end, shard, problem.alignment);
    if (!offset || *offset + tensor.elements > bufferElements(problem, shard))
      return std::nullopt;
    solution.offsets.push_back(*offset);
    end = *offset + tensor.elements;
  }
  return solution;
}

/// Returns the first size from `shard` on that meets leastShard's third
/// condition.
static int64_t nextSize(const LayoutProblem &problem, int64_t shard) {
  while (true) {
    std::optional<int64_t> step = problem.shardAlignment;
    // The size at which the condition changes.
    int64_t change = std::numeric_limits<int64_t>::max();
    for (const Tensor &tensor : problem.tensors) {
      auto half = static_cast<int64_t>(llvm::divideCeil(tensor.elements, 2));
      if (half <= shard)
        continue;
      if (step)
        step = leastCommonMultiple(*step, tensor.block);
      change = std::min(change, half);
    }
    if (step && alignUp(shard, *step) <= change)
      return alignUp(shard, *step);
    shard = change;
  }
}

/// Returns the least size by the first two conditions.
static int64_t firstSize(const LayoutProblem &problem) {
  int64_t shard = static_cast<int64_t>(
      llvm::divideCeil(packedElements(problem), problem.devices));
  for (const Tensor &tensor : problem.tensors)
    shard = std::max(shard, std::min(tensor.block, tensor.elements));
  return alignUp(shard, problem.shardAlignment);
}

int64_t fcdp::leastShard(const LayoutProblem &problem) {
  int64_t shard = firstSize(problem);
  return shard == 0 ? 0 : nextSize(problem, shard);
}

/// Bisects the multiples of `step` that are at least `least`, and returns the
/// solution with the least size that is found. With the greatest of them, all
/// tensors fit in one shard.
static LayoutSolution bisect(const LayoutProblem &problem, int64_t least,
                             int64_t step) {
  int64_t low = static_cast<int64_t>(llvm::divideCeil(least, step));
  auto high = static_cast<int64_t>(
      llvm::divideCeil(std::max(least, packedElements(problem)), step));
  LayoutSolution best = *place(problem, high * step);
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    std::optional<LayoutSolution> found = place(problem, middle * step);
    if (found)
      best = *found;
    (found ? high : low) = found ? middle : middle + 1;
  }
  return best;
}

LayoutSolution fcdp::planLayout(const LayoutProblem &problem) {
  int64_t shard = leastShard(problem);
  if (shard == 0)
    return {llvm::SmallVector<int64_t>(problem.tensors.size(), 0), 0};
  for (size_t placed = 0; placed < kMaxPlaced;
       placed += problem.tensors.size()) {
    if (std::optional<LayoutSolution> found = place(problem, shard))
      return *found;
    shard = nextSize(problem, shard + problem.shardAlignment);
  }

  llvm::SmallVector<int64_t> blocks{1};
  for (const Tensor &tensor : problem.tensors)
    blocks.push_back(
        std::min(tensor.block, std::max<int64_t>(tensor.elements, 1)));
  llvm::sort(blocks);
  blocks.erase(llvm::unique(blocks), blocks.end());
  std::optional<LayoutSolution> best;
  std::optional<int64_t> step = problem.shardAlignment;
  for (int64_t block : blocks) {
    step = leastCommonMultiple(*step, block);
    if (!step)
      break;
    LayoutSolution found = bisect(problem, shard, *step);
    if (!best || found.shardElements < best->shardElements)
      best = found;
  }
  return *best;
}
