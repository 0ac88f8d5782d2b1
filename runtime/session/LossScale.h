// SPDX-License-Identifier: Apache-2.0
//
// The factor by which losses are scaled, and how it changes from step to step.
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// The settings of torch.amp.GradScaler, with its defaults. Immutable, hence
/// thread-safe.
class LossScaling {
public:
  LossScaling() = default;

  /// Reads "init=65536,growth=2,backoff=0.5,interval=2000", of which settings
  /// may be left out, or one number, which is the scale of all steps. Throws
  /// std::runtime_error that says what was expected; `option` opens its text.
  static LossScaling parse(const std::string &text, const std::string &option);

  /// The scale does not change.
  bool isFixed() const { return interval == 0; }
  double growthFactor() const { return isFixed() ? 1 : growth; }
  double backoffFactor() const { return isFixed() ? 1 : backoff; }
  /// 0 if the scale is fixed.
  int64_t growthInterval() const { return interval; }
  /// The text that it was read from.
  const std::string &text() const { return source; }

private:
  friend class LossScale;
  friend class LossScalingParser;

  /// The first scale, or that of all steps.
  float init = 65536;
  double growth = 2, backoff = 0.5;
  /// Steps without an overflow after which the scale grows; 0 if it is fixed.
  int64_t interval = 2000;
  std::string source;
};

/// The loss scale of a job, step by step. Used by one thread.
class LossScale {
public:
  explicit LossScale(const LossScaling &settings)
      : settings(settings), scale(settings.init) {}

  const LossScaling &scaling() const { return settings; }
  /// The scale of the next step.
  float value() const { return scale; }
  /// Steps since the scale changed or a step was skipped.
  int64_t growthTracker() const { return tracker; }
  /// The scale was the least one in a step that was skipped, so that no smaller
  /// one can help.
  bool isExhausted() const { return exhausted; }

  /// Whether a scale can be that of a step: finite, and at least the least
  /// positive number in f16, in which the backward pass may begin.
  static bool isValid(double scale);

  /// Goes on from a step that another object had. The scale is valid.
  void restore(float value, int64_t growthTracker);
  /// Takes note of a step, as torch.amp.GradScaler.update does: the scale backs
  /// off if the step was skipped, and grows after many that were not.
  void update(bool isSkipped);

private:
  const LossScaling settings;
  float scale;
  int64_t tracker = 0;
  bool exhausted = false;
};

} // namespace fcdp
