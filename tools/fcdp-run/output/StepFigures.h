// SPDX-License-Identifier: Apache-2.0
//
// The figures of a step that a user sees.
#pragma once

#include "plan/StepPlan.h"
#include "policy/StepStats.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace fcdp::run {

struct StepFigures {
  StepStats stats;
  /// The epochs of each series of rows, from 1; empty if the data has no end.
  std::vector<int64_t> epochs = {};
  /// The tokens per second of all ranks; none if the step has no tokens.
  std::optional<double> tokensPerSecond = std::nullopt;
  /// Seconds that the remaining steps will take.
  double secondsLeft = 0;
};

struct EvaluationFigures {
  StepStats stats;
  /// The number of batches on each rank.
  int64_t batches;
};

/// Returns the tokens that all ranks read in a step with `inputs`: the elements
/// of the first input of integers that has at least two dimensions. 0 without
/// such an input.
int64_t tokensOfStep(const StepPlan &plan, StepPlan::Inputs inputs);

/// Estimates the duration of the remaining steps. Used by one thread.
class TimeLeft {
public:
  using Clock = std::chrono::steady_clock;

  /// `lastStep` is the number of the job's last step.
  explicit TimeLeft(int64_t lastStep) : lastStep(lastStep) {}

  /// Returns the seconds from `now`, when a step has ended, to the end of the
  /// last step. The first step takes longer than others, so its time is used
  /// only until a second one has ended.
  double after(int64_t step, double secondsOfStep,
               Clock::time_point now = Clock::now());

private:
  int64_t lastStep;
  /// The first step that has ended; 0 before that.
  int64_t firstStep = 0;
  Clock::time_point firstEnd;
};

} // namespace fcdp::run
