// SPDX-License-Identifier: Apache-2.0
#include "optimizers/UpdateSegments.h"

#include <algorithm>

namespace fcdp {

namespace {

bool haveOneSetting(const UpdateSegment &one, const UpdateSegment &other) {
  return one.lrFactor == other.lrFactor && one.weightDecay == other.weightDecay;
}

/// Returns the parameters of the whole bucket, in order.
std::vector<UpdateSegment>
parametersOfBucket(const StepPlan &plan, size_t bucket, double weightDecay) {
  std::vector<UpdateSegment> segments;
  for (const auto &parameter : plan.parameters) {
    if (parameter->bucket != bucket || numElements(parameter->shape) == 0)
      continue;
    UpdateSegment segment{int64_t(parameter->offsetElements),
                          numElements(parameter->shape), 1, weightDecay};
    if (size_t rank = parameter->shape.size(); rank >= 2) {
      segment.rows = parameter->shape[rank - 2];
      segment.columns = parameter->shape[rank - 1];
    }
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

/// Returns the first element of the shard at `place`.
int64_t firstElement(const StepPlan &plan, size_t bucket, Place place) {
  const plan::BucketT &table = *plan.buckets[bucket];
  return int64_t(partOf(table.sharding, plan.mesh, place)) *
         int64_t(table.shardElements);
}

} // namespace

std::vector<UpdateSegment> wholeSegments(const StepPlan &plan, size_t bucket,
                                         Place place, double weightDecay) {
  int64_t first = firstElement(plan, bucket, place);
  int64_t last = first + int64_t(plan.buckets[bucket]->shardElements);
  std::vector<UpdateSegment> own;
  for (UpdateSegment segment : parametersOfBucket(plan, bucket, weightDecay)) {
    if (segment.begin < first || segment.begin >= last)
      continue;
    segment.begin -= first;
    own.push_back(segment);
  }
  return own;
}

std::vector<UpdateSegment> updateSegments(const StepPlan &plan, size_t bucket,
                                          Place place, double weightDecay) {
  int64_t first = firstElement(plan, bucket, place);
  int64_t last = first + int64_t(plan.buckets[bucket]->shardElements);
  std::vector<UpdateSegment> whole =
      parametersOfBucket(plan, bucket, weightDecay);
  std::vector<UpdateSegment> own;
  if (whole.empty())
    return {{0, last - first, 1, weightDecay}};
  for (size_t i = 0; i < whole.size(); ++i) {
    UpdateSegment segment = whole[i];
    // There is only padding before the first parameter.
    int64_t begin = std::max(i == 0 ? 0 : segment.begin, first);
    int64_t end =
        std::min(i + 1 < whole.size() ? whole[i + 1].begin : last, last);
    if (begin >= end)
      continue;
    segment.begin = begin - first;
    segment.elements = end - begin;
    segment.rows = segment.columns = 0;
    if (!own.empty() && haveOneSetting(own.back(), segment))
      own.back().elements += segment.elements;
    else
      own.push_back(segment);
  }
  return own;
}

} // namespace fcdp
