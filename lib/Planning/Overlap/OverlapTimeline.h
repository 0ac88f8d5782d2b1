// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Overlap/OverlapProblem.h"

namespace fcdp {

/// The times at which the parts of a function ran, in seconds.
struct OverlapTimeline {
  double seconds = 0;
  /// The beginning of each piece.
  std::vector<double> pieces;
  /// The duration of each stage of each fetch.
  std::vector<llvm::SmallVector<double, 3>> fetches;
  /// The end of each reduction.
  std::vector<double> reductions;
};

OverlapTimeline simulateOverlap(const OverlapProblem &problem,
                                llvm::ArrayRef<size_t> fetched,
                                llvm::ArrayRef<size_t> accumulated);

/// Returns the bytes on the device by piece.
std::vector<int64_t> sumBytes(const OverlapProblem &problem,
                              llvm::ArrayRef<size_t> fetched,
                              llvm::ArrayRef<size_t> accumulated);

} // namespace fcdp
