// SPDX-License-Identifier: Apache-2.0
//
// Computes the factor by which losses are scaled, step by step.
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// The settings of torch.amp.GradScaler, with its defaults. Immutable, hence
/// thread-safe.
class LossScaling {
public:
  LossScaling() = default;

  /// Parses "init=65536,growth=2,backoff=0.5,interval=2000", in which settings
  /// may be left out, or one number, which is the scale of all steps. Throws
  /// std::runtime_error that says what was expected; its text begins with
  /// `option`.
  static LossScaling parse(const std::string &text, const std::string &option);

  /// Returns whether the scale never changes.
  bool isFixed() const { return interval == 0; }
  double growthFactor() const { return isFixed() ? 1 : growth; }
  double backoffFactor() const { return isFixed() ? 1 : backoff; }
  /// Returns 0 if the scale is fixed.
  int64_t growthInterval() const { return interval; }
  /// Returns the text that it was parsed from.
  const std::string &text() const { return source; }

private:
  friend class LossScale;
  friend class LossScalingParser;

  /// The scale of the first step, or of all steps.
  float init = 65536;
  double growth = 2, backoff = 0.5;
  /// The number of steps without an overflow after which the scale grows; 0 if
  /// it is fixed.
  int64_t interval = 2000;
  std::string source;
};

/// The loss scale of a job, step by step. Used by one thread.
class LossScale {
public:
  explicit LossScale(const LossScaling &settings)
      : settings(settings), scale(settings.init) {}

  const LossScaling &scaling() const { return settings; }
  /// Returns the scale of the next step.
  float value() const { return scale; }
  /// Returns the number of steps since the scale changed or a step was skipped.
  int64_t growthTracker() const { return tracker; }
  /// Returns whether the scale was the least possible one in a step that was
  /// skipped, so that no smaller one can help.
  bool isExhausted() const { return exhausted; }

  /// Returns whether a step may have this scale. It must be finite, and at
  /// least the least positive number in f16, the type in which the backward
  /// pass may begin.
  static bool isValid(double scale);

  /// Continues from a step of another object. The scale must be valid.
  void restore(float value, int64_t growthTracker);
  /// Updates the scale after a step, as torch.amp.GradScaler.update does: it
  /// backs off if the step was skipped, and grows after many steps that were
  /// not.
  void update(bool isSkipped);

private:
  const LossScaling settings;
  float scale;
  int64_t tracker = 0;
  bool exhausted = false;
};

} // namespace fcdp
