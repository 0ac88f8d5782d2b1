// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// Buckets that differ in nothing but the unit they serve, in parameter order:
/// which neighbours are to be one? Knows no IR.
struct MergingProblem {
  /// The bytes that a gather of each bucket carries.
  llvm::SmallVector<int64_t> bytes;
  /// Greatest bytes of a merged bucket, all of which are gathered before the
  /// first use and kept until the last. 0: nothing is merged.
  int64_t limit = 0;

  /// Fails on negative numbers.
  llvm::Error check() const;
};

struct MergingSolution {
  /// The group of each bucket, in ascending order from 0.
  llvm::SmallVector<size_t> groups;

  /// Fails if groups are not runs of neighbours, or if one holds a bucket that
  /// should not have joined.
  llvm::Error verify(const MergingProblem &problem) const;
};

/// Returns whether a bucket of `more` bytes joins a group of `grouped` bytes,
/// which it does while both together stay within the limit. Merging saves a
/// latency in the forward and one in the backward pass. But the bucket that is
/// used first then waits for the bytes of both.
bool joins(const MergingProblem &problem, int64_t grouped, int64_t more);

/// Each bucket joins the group before it where it may. Requires check().
MergingSolution mergeBuckets(const MergingProblem &problem);

/// Limits that are to be compared.
struct MergingChoice {
  /// For each kind of buckets, the bytes that a gather of each bucket carries,
  /// in parameter order. Neighbours of one kind may be merged.
  llvm::SmallVector<llvm::SmallVector<int64_t>> kinds;
  /// Greatest limit, in bytes.
  int64_t most = 0;
  /// Seconds that a step takes less, at most, for each bucket that joins
  /// another, and those that are not worth a comparison.
  double saved = 0, worth = 0;
};

/// Limits that merge about 2, 4, 8, ... buckets of a kind, in ascending order.
/// Each makes so many buckets fewer than the one before it, the first than no
/// merging, that it may be worth a comparison.
llvm::SmallVector<int64_t> findLimits(const MergingChoice &choice);

} // namespace fcdp
