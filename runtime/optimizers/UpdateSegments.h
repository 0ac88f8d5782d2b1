// SPDX-License-Identifier: Apache-2.0
//
// Divides a shard into the parts that the optimizer updates with different
// settings.
#pragma once

#include "plan/StepPlan.h"

#include <vector>

namespace fcdp {

/// Elements [begin, begin + elements) of a rank's shard.
struct UpdateSegment {
  int64_t begin = 0, elements = 0;
  /// The factor on the learning rate.
  double lrFactor = 1;
  double weightDecay = 0;
  /// The last two dimensions of a parameter that is updated as a whole, or 0 if
  /// it has fewer.
  int64_t rows = 0, columns = 0;
};

/// Returns the segments of a bucket's shard at `place`, which cover it in
/// order. Neighbours differ in their settings. Padding belongs to the parameter
/// before it, so that every segment begins at a multiple of 64 bytes, as
/// parameters do in the plan. This makes updates of segments exact. libtorch's
/// kernels compute whole vectors with fused multiply-adds, but the elements
/// after the last vector without. So a boundary within a vector, whose place
/// depends on the number of ranks, would change bits. `weightDecay` is for
/// parameters without a group.
std::vector<UpdateSegment> updateSegments(const StepPlan &plan, size_t bucket,
                                          Place place, double weightDecay);

/// Returns the parameters of a bucket's shard at `place`, in order. Each is
/// whole.
std::vector<UpdateSegment> wholeSegments(const StepPlan &plan, size_t bucket,
                                         Place place, double weightDecay);

} // namespace fcdp
