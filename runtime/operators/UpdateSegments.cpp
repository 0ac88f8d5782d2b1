// SPDX-License-Identifier: Apache-2.0
#include "operators/UpdateSegments.h"

#include <algorithm>

namespace fcdp {

namespace {

bool haveOneSetting(const UpdateSegment &one, const UpdateSegment &other) {
  return one.lrFactor == other.lrFactor && one.weightDecay == other.weightDecay;
}

/// The segments of the whole bucket, each of which ends where the next begins.
std::vector<UpdateSegment> segmentsOfBucket(const StepPlan &plan,
                                            size_t bucket) {
  std::vector<UpdateSegment> segments;
  for (const auto &parameter : plan.parameters) {
    if (parameter->bucket != bucket || numElements(parameter->shape) == 0)
      continue;
    UpdateSegment segment{int64_t(parameter->offsetElements), 0, 1,
                          plan.weightDecay()};
    if (parameter->group) {
      const plan::GroupT &group = *plan.groups[*parameter->group];
      segment.lrFactor = group.lrFactor;
      segment.weightDecay = group.weightDecay;
    }
    segments.push_back(segment);
  }
  std::sort(segments.begin(), segments.end(),
            [](const UpdateSegment &one, const UpdateSegment &other) {
              return one.begin < other.begin;
            });
  return segments;
}

} // namespace

std::vector<UpdateSegment> updateSegments(const StepPlan &plan, size_t bucket,
                                          Place place) {
  const plan::BucketT &table = *plan.buckets[bucket];
  int64_t first = int64_t(partOf(table.sharding, plan.mesh, place)) *
                  int64_t(table.shardElements);
  int64_t last = first + int64_t(table.shardElements);
  std::vector<UpdateSegment> whole = segmentsOfBucket(plan, bucket), own;
  if (whole.empty())
    return {{0, last - first, 1, plan.weightDecay()}};
  for (size_t i = 0; i < whole.size(); ++i) {
    UpdateSegment segment = whole[i];
    // In front of the first parameter there is nothing but padding.
    int64_t begin = std::max(i == 0 ? 0 : segment.begin, first);
    int64_t end =
        std::min(i + 1 < whole.size() ? whole[i + 1].begin : last, last);
    if (begin >= end)
      continue;
    segment.begin = begin - first;
    segment.elements = end - begin;
    if (!own.empty() && haveOneSetting(own.back(), segment))
      own.back().elements += segment.elements;
    else
      own.push_back(segment);
  }
  return own;
}

} // namespace fcdp
