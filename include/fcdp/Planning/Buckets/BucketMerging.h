// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// The problem of which neighbouring buckets to merge. The buckets differ only
/// in their unit, and are in parameter order. It does not use the IR.
struct MergingProblem {
  /// The bytes that a gather of each bucket carries.
  llvm::SmallVector<int64_t> bytes;
  /// Greatest number of bytes of a merged bucket, all of which are gathered
  /// before the first use and kept until the last. With 0 nothing is merged.
  int64_t limit = 0;

  /// Fails on negative numbers.
  llvm::Error check() const;
};

struct MergingSolution {
  /// The group of each bucket, in ascending order from 0.
  llvm::SmallVector<size_t> groups;

  /// Fails if groups are not runs of neighbours, or if a group contains a
  /// bucket that should not have joined it.
  llvm::Error verify(const MergingProblem &problem) const;
};

/// Returns whether a bucket of `more` bytes joins a group of `grouped` bytes,
/// which it does while both together stay within the limit. Merging saves one
/// latency in the forward and one in the backward pass, but the bucket that is
/// used first then waits for the bytes of both.
bool joins(const MergingProblem &problem, int64_t grouped, int64_t more);

/// Returns the solution in which each bucket joins the group before it if it
/// may. Requires check().
MergingSolution mergeBuckets(const MergingProblem &problem);

/// The data for comparing several limits.
struct MergingChoice {
  /// For each kind of buckets, the bytes that a gather of each bucket carries,
  /// in parameter order. Neighbours of one kind may be merged.
  llvm::SmallVector<llvm::SmallVector<int64_t>> kinds;
  /// Greatest limit, in bytes.
  int64_t most = 0;
  /// The most seconds that a step can save for each bucket that joins another,
  /// and the seconds that are too few for a comparison.
  double saved = 0, worth = 0;
};

/// Returns limits that merge about 2, 4, 8, ... buckets of a kind, in ascending
/// order. Each saves enough latencies over the one before it, or over no
/// merging for the first, that a comparison may be worth its time.
llvm::SmallVector<int64_t> findLimits(const MergingChoice &choice);

} // namespace fcdp
