// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/States/StatePlacement.h"

#include "fcdp/Planning/Checks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace fcdp;

llvm::Error StatePlacementProblem::check() const {
  if (needed < 0)
    return makeError("expected 0 bytes or more to leave the device");
  for (const Bucket &bucket : buckets)
    if (bucket.bytes < 0 || !isDuration(bucket.seconds))
      return makeError("expected states of 0 bytes or more, and a finite time");
  return llvm::Error::success();
}

int64_t StatePlacement::countBytes(const StatePlacementProblem &problem) const {
  int64_t bytes = 0;
  for (auto [moves, bucket] : llvm::zip_equal(isOnHost, problem.buckets))
    bytes += moves ? bucket.bytes : 0;
  return bytes;
}

llvm::Error StatePlacement::verify(const StatePlacementProblem &problem) const {
  if (isOnHost.size() != problem.buckets.size())
    return makeError("expected a place for each of %zu buckets, got %zu",
                     problem.buckets.size(), isOnHost.size());
  int64_t moved = countBytes(problem);
  bool isEnough = moved >= problem.needed;
  for (auto [moves, bucket] : llvm::zip_equal(isOnHost, problem.buckets)) {
    if (!isEnough && !moves && bucket.bytes > 0)
      return makeError("expected %lld bytes to leave the device, got %lld",
                       static_cast<long long>(problem.needed),
                       static_cast<long long>(moved));
    if (moves && moved - bucket.bytes >= problem.needed)
      return makeError("states of %lld bytes could stay on the device",
                       static_cast<long long>(bucket.bytes));
  }
  return llvm::Error::success();
}

/// Returns the buckets with states, those with the least time for a byte first,
/// and among equals the largest.
static llvm::SmallVector<size_t>
sortByCost(const StatePlacementProblem &problem) {
  llvm::SmallVector<size_t> order;
  for (size_t i = 0; i < problem.buckets.size(); ++i)
    if (problem.buckets[i].bytes > 0)
      order.push_back(i);
  llvm::stable_sort(order, [&](size_t left, size_t right) {
    const auto &a = problem.buckets[left], &b = problem.buckets[right];
    double ofA = a.seconds * static_cast<double>(b.bytes),
           ofB = b.seconds * static_cast<double>(a.bytes);
    return ofA != ofB ? ofA < ofB : a.bytes > b.bytes;
  });
  return order;
}

StatePlacement fcdp::placeStates(const StatePlacementProblem &problem) {
  StatePlacement placed;
  placed.isOnHost.assign(problem.buckets.size(), false);
  llvm::SmallVector<size_t> order = sortByCost(problem);
  int64_t moved = 0;
  for (size_t i : order) {
    if (moved >= problem.needed)
      break;
    placed.isOnHost[i] = true;
    moved += problem.buckets[i].bytes;
  }
  auto keepUnneeded = [&] {
    for (size_t i : llvm::reverse(order))
      if (placed.isOnHost[i] &&
          moved - problem.buckets[i].bytes >= problem.needed) {
        placed.isOnHost[i] = false;
        moved -= problem.buckets[i].bytes;
      }
  };
  keepUnneeded();
  // A smaller bucket may be enough in the place of a larger one.
  for (size_t i : llvm::reverse(order)) {
    if (!placed.isOnHost[i])
      continue;
    int64_t least = problem.needed - (moved - problem.buckets[i].bytes);
    std::optional<size_t> best;
    for (size_t other : order) {
      int64_t bytes = problem.buckets[other].bytes;
      int64_t most = problem.buckets[best.value_or(i)].bytes;
      if (!placed.isOnHost[other] && bytes >= least && bytes < most)
        best = other;
    }
    if (!best)
      continue;
    placed.isOnHost[i] = false;
    placed.isOnHost[*best] = true;
    moved += problem.buckets[*best].bytes - problem.buckets[i].bytes;
  }
  keepUnneeded();
  return placed;
}
