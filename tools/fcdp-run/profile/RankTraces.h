// SPDX-License-Identifier: Apache-2.0
//
// When ranks did what they did in a step, on the clock of rank 0.
#pragma once

#include "collectives/Job.h"
#include "core/StepRecorder.h"

#include <functional>
#include <vector>

namespace fcdp::run {

/// The spans of one rank, by stream; ranks run one program, so they are of the
/// operations that rank 0 has issued.
struct RankTrace {
  uint32_t rank = 0;
  /// Seconds from the beginning of the first rank that has one.
  double begin = 0;
  std::array<std::vector<StepRecorder::Span>, kNumStreams> spans;
};

/// Ranks of which so many spans may be kept together: all `ranks`, or else rank
/// 0, `slowest`, and others at equal distances; at least rank 0 and `slowest`.
/// Returns `spans` of each rank in ascending order.
std::vector<uint32_t> chooseTraced(uint32_t ranks, uint32_t slowest,
                                   size_t spans);

/// Calls `take` on rank 0 with the trace of each of `traced`, one after the
/// other, whose spans are seconds from the beginning of the first of them. All
/// ranks of the job call it with the same `traced`, which has rank 0 first.
/// Clocks of other machines are known to half a round trip.
void collectTraces(Job &job, const StepRecorder &recorder,
                   const std::vector<uint32_t> &traced,
                   const std::function<void(const RankTrace &)> &take);

} // namespace fcdp::run
