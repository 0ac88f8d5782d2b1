// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Overlap/OverlapProblem.h"

namespace fcdp {

/// When what ran, in seconds.
struct OverlapTimeline {
  double seconds = 0;
  /// When each piece began.
  std::vector<double> pieces;
  /// How long each stage of each fetch took.
  std::vector<llvm::SmallVector<double, 3>> fetches;
  /// When each reduction was done.
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
