// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace fcdp {

/// The problem of which gradients to write directly into their buckets. The
/// bucket's memory is then in use earlier, but no memory is needed for the
/// gradients beside it. The solution says when each bucket's memory begins to
/// be in use. It does not use the IR.
struct InPlaceProblem {
  struct Gradient {
    /// The position of its operator. If the gradient is copied, its own memory
    /// is in use from there until it is packed.
    int64_t made;
    int64_t bytes;
  };
  struct Bucket {
    int64_t bytes = 0;
    /// The position of the pack, from which on the bucket's memory is in use in
    /// any case.
    int64_t packed = 0;
    /// Gradients that may be written in place, in the order of their operators,
    /// before `packed`.
    llvm::SmallVector<Gradient> gradients;
  };
  /// Bytes in use at each position of the program, if all gradients are copied.
  std::vector<int64_t> inUse;
  /// Bytes that may be in use at once where a gradient is written in place, if
  /// this needs more memory than copies.
  int64_t limit = 0;
  /// The buckets in the order of their packs.
  std::vector<Bucket> buckets;

  /// Fails on negative sizes, and on positions out of range or out of order.
  llvm::Error check() const;
};

struct InPlaceSolution {
  /// The position from which each bucket's memory is in use. Gradients that are
  /// computed there or later are written in place.
  std::vector<int64_t> begins;
  /// The most bytes in use at once.
  int64_t peak = 0;

  /// Fails if a bucket begins neither where one of its gradients is computed
  /// nor where it is packed, if the peak is wrong, or if the peak is over both
  /// the limit and the use if all gradients are copied.
  llvm::Error verify(const InPlaceProblem &problem) const;
};

/// Chooses, for one bucket after another, the earliest begin that the limit
/// allows. If every begin exceeds the limit, it chooses the latest begin with
/// the least memory in use. Requires check(). The time is proportional to the
/// positions from the first gradient of a bucket to its pack, times its
/// gradients.
InPlaceSolution planInPlace(const InPlaceProblem &problem);

} // namespace fcdp
