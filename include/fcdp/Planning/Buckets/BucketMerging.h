// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// Buckets that differ in nothing but the unit they serve, in parameter order:
/// which neighbours are to be one? Knows no IR.
struct MergingProblem {
  /// What a gather of each carries, in bytes.
  llvm::SmallVector<int64_t> bytes;
  /// Greatest bytes of a merged bucket, all of which are gathered before the
  /// first use and kept until the last. 0: nothing is merged.
  int64_t limit = 0;

  /// Fails on negative numbers.
  llvm::Error check() const;
};

struct MergingSolution {
  /// For each bucket its group's number, in ascending order from 0.
  llvm::SmallVector<size_t> groups;

  /// Fails if groups are not runs of neighbours, or if one holds a bucket that
  /// should not have joined.
  llvm::Error verify(const MergingProblem &problem) const;
};

/// Whether a bucket of `more` bytes joins one of `held`: while both together
/// stay within the limit. Merging saves a latency in the forward and one in the
/// backward pass; in the former the first to be used waits for the bytes of the
/// second, in the latter it is the other way round.
bool joins(const MergingProblem &problem, int64_t held, int64_t more);

/// Each bucket joins the group before it where it may. Requires check().
MergingSolution mergeBuckets(const MergingProblem &problem);

/// Limits that are to be compared.
struct MergingChoice {
  /// Of buckets of each kind the bytes that a gather carries, in parameter
  /// order: neighbours of one kind may be merged.
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
