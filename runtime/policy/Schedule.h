// SPDX-License-Identifier: Apache-2.0
//
// Changes the learning rate from step to step.
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// Gives the learning rate of each optimizer step as a factor of a base rate.
/// docs/optimizers.md has the formulas. Immutable, hence thread-safe.
class Schedule {
public:
  /// A schedule whose factor is always 1.
  Schedule() = default;

  /// Parses "cosine,warmup=100,steps=10000,min=0.1". Throws std::runtime_error
  /// that says what was expected; its text begins with `option`.
  static Schedule parse(const std::string &text, const std::string &option);

  /// Returns the factor of the step after `stepsDone` others.
  double factor(int64_t stepsDone) const;

  /// Returns the text that it was parsed from.
  const std::string &text() const { return source; }

private:
  enum class Kind { Constant, Linear, Cosine, Wsd };
  enum class Shape { Linear, Cosine, Sqrt };
  friend class ScheduleParser;

  /// Returns the remaining share of the part above the floor.
  double decay(int64_t decayed) const;

  Kind kind = Kind::Constant;
  int64_t warmup = 0, steps = 0, decaySteps = 0;
  double start = 0, least = 0;
  Shape shape = Shape::Linear;
  std::string source = "constant";
};

} // namespace fcdp
