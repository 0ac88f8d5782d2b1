// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Residency/ResidencyProblem.h"

#include <algorithm>

namespace fcdp {

/// The first and the last use of each bucket in a micro-batch, and the uses
/// that reduce gradients.
struct UseRanges {
  explicit UseRanges(const ResidencyProblem &problem)
      : first(problem.buckets.size(), problem.uses.size()),
        last(problem.buckets.size()) {
    for (size_t i = 0; i < problem.uses.size(); ++i) {
      unsigned bucket = problem.uses[i].bucket;
      first[bucket] = std::min(first[bucket], i);
      last[bucket] = i;
      if (!problem.uses[i].reduced.empty())
        reducing.push_back(i);
    }
  }
  bool isUsed(unsigned bucket) const { return first[bucket] <= last[bucket]; }
  bool isUsedAgain(unsigned bucket) const {
    return first[bucket] < last[bucket];
  }

  std::vector<size_t> first, last;
  /// The reducing uses in order; each is a unit of findSumPlace.
  std::vector<size_t> reducing;
};

} // namespace fcdp
