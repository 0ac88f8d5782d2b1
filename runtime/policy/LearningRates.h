// SPDX-License-Identifier: Apache-2.0
//
// The learning rates of a session's steps.
#pragma once

#include "policy/Schedule.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace fcdp {

/// A base rate and the schedule of its factors. Used by one thread.
class LearningRates {
public:
  /// `compiled` is the base rate of the step, unless another one is set.
  explicit LearningRates(double compiled) : compiled(compiled) {}

  /// Throws SessionError(Misuse) unless the rate is finite and at least 0.
  void setBase(double rate);
  void setSchedule(const Schedule &schedule) { factors = schedule; }

  /// Returns the rate that the schedule's factors apply to.
  double base() const { return set.value_or(compiled); }
  /// Returns the text of the schedule, "constant" if none was set.
  std::string schedule() const;
  /// Returns the rate of the step after `stepsDone` others.
  double rateAfter(int64_t stepsDone) const;

  /// Returns a checkpoint's settings of the job with the base rate and the
  /// schedule that were set.
  nlohmann::json addTo(nlohmann::json job) const;
  /// Sets the base rate and the schedule that the settings have. Throws
  /// std::runtime_error, in which `origin` names their place.
  void takeFrom(const nlohmann::json &job, const std::string &origin);

private:
  const double compiled;
  std::optional<double> set;
  std::optional<Schedule> factors;
};

} // namespace fcdp
