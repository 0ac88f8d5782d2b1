// SPDX-License-Identifier: Apache-2.0
//
// Writes a step that was run as trace events.
#pragma once

#include "plan/StepPlan.h"
#include "policy/StepStats.h"
#include "profile/RankTraces.h"

#include <memory>
#include <string>

namespace fcdp::run {

/// Google's "Trace Event Format" of a step, with the threads, names and
/// categories of fcdp-sim's. Each rank is a process. Times are in microseconds
/// from the beginning of the first traced rank. Used by one thread.
class TraceText {
public:
  /// `recorder` has the step as rank 0 has issued it. Both must outlive this
  /// object.
  TraceText(const StepPlan &plan, const StepRecorder &recorder);
  ~TraceText();

  void add(const RankTrace &trace);
  /// Returns the text of all ranks, together with `stats`.
  std::string finish(const StepStats &stats);

private:
  class Writer;
  std::unique_ptr<Writer> writer;
};

} // namespace fcdp::run
