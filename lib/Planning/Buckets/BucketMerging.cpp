// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Buckets/BucketMerging.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace fcdp;

llvm::Error MergingProblem::check() const {
  for (int64_t number : bytes)
    if (number < 0)
      return llvm::createStringError(
          llvm::formatv("bucket of {0} bytes", number));
  if (limit < 0)
    return llvm::createStringError(
        llvm::formatv("expected a limit of 0 bytes or more, got {0}", limit));
  return llvm::Error::success();
}

bool fcdp::joins(const MergingProblem &problem, int64_t grouped, int64_t more) {
  // The sum of both may overflow.
  return problem.limit != 0 && grouped <= problem.limit &&
         more <= problem.limit - grouped;
}

MergingSolution fcdp::mergeBuckets(const MergingProblem &problem) {
  MergingSolution solution;
  int64_t grouped = 0;
  for (int64_t more : problem.bytes) {
    if (solution.groups.empty()) {
      solution.groups.push_back(0);
      grouped = more;
    } else if (joins(problem, grouped, more)) {
      solution.groups.push_back(solution.groups.back());
      grouped += more;
    } else {
      solution.groups.push_back(solution.groups.back() + 1);
      grouped = more;
    }
  }
  return solution;
}

llvm::Error MergingSolution::verify(const MergingProblem &problem) const {
  if (groups.size() != problem.bytes.size())
    return llvm::createStringError(llvm::formatv(
        "expected {0} groups, got {1}", problem.bytes.size(), groups.size()));
  int64_t grouped = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    size_t before = index == 0 ? 0 : groups[index - 1];
    bool isFirst = index == 0 || group == before + 1;
    if (group != before && !isFirst)
      return llvm::createStringError(llvm::formatv(
          "bucket {0} is in group {1}, after group {2}", index, group, before));
    int64_t more = problem.bytes[index];
    if (!isFirst && !joins(problem, grouped, more))
      return llvm::createStringError(
          llvm::formatv("bucket {0} of {1} bytes may not join {2} bytes", index,
                        more, grouped));
    grouped = isFirst ? more : grouped + more;
  }
  return llvm::Error::success();
}

/// Adds limits of twice, four times, ... the size of the middle bucket, until
/// all buckets would be one.
static void addLimits(llvm::ArrayRef<int64_t> bytes, int64_t most,
                      llvm::SmallVectorImpl<int64_t> &limits) {
  if (bytes.empty())
    return;
  llvm::SmallVector<int64_t> sorted(bytes);
  llvm::sort(sorted);
  uint64_t all = 0;
  for (int64_t number : bytes)
    all = llvm::SaturatingAdd(all, static_cast<uint64_t>(number));
  auto limit = static_cast<uint64_t>(sorted[sorted.size() / 2]);
  while (limit != 0 && limit < all) {
    limit = llvm::SaturatingMultiply(limit, uint64_t(2));
    if (limit > static_cast<uint64_t>(most))
      return;
    limits.push_back(static_cast<int64_t>(limit));
  }
}

/// Returns by how many the number of buckets decreases.
static size_t countJoined(const MergingChoice &choice, int64_t limit) {
  size_t joined = 0;
  for (const llvm::SmallVector<int64_t> &bytes : choice.kinds) {
    if (bytes.empty())
      continue;
    MergingProblem problem;
    problem.bytes = bytes;
    problem.limit = limit;
    joined += bytes.size() - 1 - mergeBuckets(problem).groups.back();
  }
  return joined;
}

llvm::SmallVector<int64_t> fcdp::findLimits(const MergingChoice &choice) {
  llvm::SmallVector<int64_t> limits, kept;
  for (llvm::ArrayRef<int64_t> bytes : choice.kinds)
    addLimits(bytes, choice.most, limits);
  llvm::sort(limits);
  size_t before = 0;
  for (int64_t limit : limits) {
    size_t joined = countJoined(choice, limit);
    if (joined <= before ||
        static_cast<double>(joined - before) * choice.saved < choice.worth)
      continue;
    kept.push_back(limit);
    before = joined;
  }
  return kept;
}
