// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/InPlacePlanning.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace fcdp;
using Bucket = InPlaceProblem::Bucket;
using Gradient = InPlaceProblem::Gradient;

static llvm::Error checkGradients(const Bucket &bucket, size_t index) {
  int64_t before = -1;
  for (const Gradient &gradient : bucket.gradients) {
    if (gradient.bytes < 0)
      return llvm::createStringError(llvm::formatv(
          "a gradient of bucket {0} has {1} bytes", index, gradient.bytes));
    if (gradient.made <= before || gradient.made >= bucket.packed)
      return llvm::createStringError(
          llvm::formatv("a gradient of bucket {0} is made at {1}; expected "
                        "ascending positions in front of {2}",
                        index, gradient.made, bucket.packed));
    before = gradient.made;
  }
  return llvm::Error::success();
}

llvm::Error InPlaceProblem::check() const {
  auto count = static_cast<int64_t>(inUse.size());
  int64_t before = 0;
  for (auto [index, bucket] : llvm::enumerate(buckets)) {
    if (bucket.bytes < 0)
      return llvm::createStringError(
          llvm::formatv("bucket {0} has {1} bytes", index, bucket.bytes));
    if (bucket.packed < before || bucket.packed >= count)
      return llvm::createStringError(llvm::formatv(
          "bucket {0} is packed at {1}; expected a position from {2} to {3}",
          index, bucket.packed, before, count - 1));
    before = bucket.packed;
    if (llvm::Error error = checkGradients(bucket, index))
      return error;
  }
  return llvm::Error::success();
}

namespace {
/// The bytes in use at each position, for changing begins of buckets.
class Usage {
public:
  explicit Usage(std::vector<int64_t> inUse) : inUse(std::move(inUse)) {}

  /// Changes `bucket`, whose gradients were copied, to begin at `begin`.
  void begin(const Bucket &bucket, int64_t begin);
  /// Returns the earliest begin of `bucket`, whose gradients are copied, with
  /// which at most `limit` bytes are in use. If there is none, returns the
  /// latest begin with the least memory in use.
  int64_t choose(const Bucket &bucket, int64_t limit) const;
  int64_t peak() const { return inUse.empty() ? 0 : *llvm::max_element(inUse); }

private:
  std::vector<int64_t> inUse;
};
} // namespace

void Usage::begin(const Bucket &bucket, int64_t begin) {
  for (int64_t at = begin; at < bucket.packed; ++at)
    inUse[at] += bucket.bytes;
  for (const Gradient &gradient : bucket.gradients)
    if (gradient.made >= begin)
      for (int64_t at = gradient.made; at <= bucket.packed; ++at)
        inUse[at] -= gradient.bytes;
}

int64_t Usage::choose(const Bucket &bucket, int64_t limit) const {
  if (bucket.gradients.empty())
    return bucket.packed;
  int64_t first = bucket.gradients.front().made, begin = bucket.packed;
  std::vector<int64_t> part(inUse.begin() + first,
                            inUse.begin() + bucket.packed + 1);
  int64_t best = bucket.packed;
  int64_t least = *llvm::max_element(part);
  // Adds one gradient at a time.
  for (const Gradient &gradient : llvm::reverse(bucket.gradients)) {
    for (int64_t at = gradient.made; at < begin; ++at)
      part[at - first] += bucket.bytes;
    for (int64_t at = gradient.made; at <= bucket.packed; ++at)
      part[at - first] -= gradient.bytes;
    begin = gradient.made;
    int64_t most = *llvm::max_element(part);
    if (most > limit && most >= least)
      continue;
    least = most;
    best = begin;
  }
  return best;
}

llvm::Error InPlaceSolution::verify(const InPlaceProblem &problem) const {
  if (begins.size() != problem.buckets.size())
    return llvm::createStringError(llvm::formatv(
        "expected {0} begins, got {1}", problem.buckets.size(), begins.size()));
  Usage usage(problem.inUse);
  for (auto [index, bucket] : llvm::enumerate(problem.buckets)) {
    int64_t begin = begins[index];
    bool isMade = llvm::any_of(bucket.gradients, [&](const Gradient &gradient) {
      return gradient.made == begin;
    });
    if (begin != bucket.packed && !isMade)
      return llvm::createStringError(llvm::formatv(
          "bucket {0} begins at {1}, where none of its gradients is made",
          index, begin));
    usage.begin(bucket, begin);
  }
  if (peak != usage.peak())
    return llvm::createStringError(llvm::formatv(
        "expected a peak of {0} bytes, got {1}", usage.peak(), peak));
  int64_t copied = Usage(problem.inUse).peak();
  if (peak > std::max(problem.limit, copied))
    return llvm::createStringError(
        llvm::formatv("{0} bytes are in use at once, of {1}, and {2} with all "
                      "gradients copied",
                      peak, problem.limit, copied));
  return llvm::Error::success();
}

InPlaceSolution fcdp::planInPlace(const InPlaceProblem &problem) {
  InPlaceSolution solution;
  Usage usage(problem.inUse);
  for (const Bucket &bucket : problem.buckets) {
    solution.begins.push_back(usage.choose(bucket, problem.limit));
    usage.begin(bucket, solution.begins.back());
  }
  solution.peak = usage.peak();
  return solution;
}
