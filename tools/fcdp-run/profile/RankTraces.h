// SPDX-License-Identifier: Apache-2.0
//
// Collects the times of the ranks' operations in a step, on the clock of rank
// 0.
#pragma once

#include "job/Job.h"
#include "streams/StepRecorder.h"

#include <functional>
#include <vector>

namespace fcdp::run {

/// The spans of one rank, by stream. Ranks run one program, so the spans belong
/// to the operations that rank 0 has issued.
struct RankTrace {
  uint32_t rank = 0;
  /// Seconds from the beginning of the first traced rank.
  double begin = 0;
  std::array<std::vector<StepRecorder::Span>, kNumStreams> spans;
};

/// Returns the ranks to trace, in ascending order, with at most as many spans
/// as may be kept together. `spans` is the number of each rank's spans. These
/// are all `ranks`, or else rank 0, `slowest`, and others at equal distances;
/// at least rank 0 and `slowest`.
std::vector<uint32_t> chooseTraced(uint32_t ranks, uint32_t slowest,
                                   size_t spans);

/// Calls `take` on rank 0 with the trace of each of `traced`, one after the
/// other. Spans are in seconds from the beginning of the first of them. All
/// ranks of the job call it with the same `traced`, which begins with rank 0.
/// Clocks of other machines are known up to half a round trip.
void collectTraces(Job &job, const StepRecorder &recorder,
                   const std::vector<uint32_t> &traced,
                   const std::function<void(const RankTrace &)> &take);

} // namespace fcdp::run
