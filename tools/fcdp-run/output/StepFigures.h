// SPDX-License-Identifier: Apache-2.0
//
// The figures of a step that a user sees.
#pragma once

#include "plan/StepPlan.h"
#include "session/StepStats.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace fcdp::run {

struct StepFigures {
  StepStats stats;
  /// The epochs of each series of rows, from 1; empty if the data has no end.
  std::vector<int64_t> epochs = {};
  /// Of all ranks; none if the step has no tokens.
  std::optional<double> tokensPerSecond = std::nullopt;
  /// Seconds that the remaining steps will take.
  double secondsLeft = 0;
};

struct EvaluationFigures {
  StepStats stats;
  /// Of each rank.
  int64_t batches;
};

/// Returns the tokens that all ranks read in a step: the elements of the first
/// input of integers that has at least two dimensions. 0 without such an input.
int64_t tokensOfStep(const StepPlan &plan, uint32_t variant = 0);

/// Estimates how long the remaining steps take. Used by one thread.
class TimeLeft {
public:
  using Clock = std::chrono::steady_clock;

  /// `lastStep` is the number of the job's last step.
  explicit TimeLeft(int64_t lastStep) : lastStep(lastStep) {}

  /// Returns the seconds from `now`, at which a step has ended, to the end of
  /// the last one. The first step takes longer than others, so they count as
  /// long as it took only until a second one has ended.
  double after(int64_t step, double secondsOfStep,
               Clock::time_point now = Clock::now());

private:
  int64_t lastStep;
  /// 0 before a step has ended.
  int64_t firstStep = 0;
  Clock::time_point firstEnd;
};

} // namespace fcdp::run
