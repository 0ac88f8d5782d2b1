// SPDX-License-Identifier: Apache-2.0
#include "step/LifetimePlan.h"

#include <algorithm>
#include <numeric>

namespace fcdp {

namespace {

struct Placed {
  size_t begin, end;
  uint32_t bornAt, freedAt;
};

size_t roundUp(size_t bytes) {
  return (bytes + kPoolAlignment - 1) / kPoolAlignment * kPoolAlignment;
}

/// The offset of the smallest sufficient gap between the placed ones that live
/// in [bornAt, freedAt), or of the free end. `placed` is sorted by `begin`.
size_t bestGap(const std::vector<Placed> &placed, size_t bytes, uint32_t bornAt,
               uint32_t freedAt) {
  size_t best = 0, bestSize = std::numeric_limits<size_t>::max(), end = 0;
  for (const Placed &other : placed) {
    if (other.freedAt <= bornAt || freedAt <= other.bornAt)
      continue;
    if (other.begin >= end + bytes && other.begin - end < bestSize) {
      best = end;
      bestSize = other.begin - end;
    }
    end = std::max(end, other.end);
  }
  return bestSize == std::numeric_limits<size_t>::max() ? end : best;
}

} // namespace

Placement placeLifetimes(const std::vector<Lifetime> &lifetimes) {
  Placement placement;
  placement.offsets.resize(lifetimes.size());
  std::vector<uint32_t> bySize(lifetimes.size());
  std::iota(bySize.begin(), bySize.end(), 0);
  std::sort(bySize.begin(), bySize.end(), [&](uint32_t a, uint32_t b) {
    if (lifetimes[a].bytes != lifetimes[b].bytes)
      return lifetimes[a].bytes > lifetimes[b].bytes;
    return a < b;
  });
  std::vector<Placed> placed;
  for (uint32_t i : bySize) {
    if (lifetimes[i].freedAt == Lifetime::kNever)
      continue;
    size_t bytes = roundUp(lifetimes[i].bytes);
    size_t offset = bestGap(placed, bytes, i, lifetimes[i].freedAt);
    placement.offsets[i] = offset;
    placement.regionBytes = std::max(placement.regionBytes, offset + bytes);
    Placed entry{offset, offset + bytes, i, lifetimes[i].freedAt};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed &a, const Placed &b) {
                                     return a.begin < b.begin;
                                   }),
                  entry);
  }
  return placement;
}

} // namespace fcdp
