// SPDX-License-Identifier: Apache-2.0
//
// The loss scale of a session's steps.
#pragma once

#include "core/OnNonfinite.h"
#include "policy/LossScale.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace fcdp {

/// The loss scale of a session, if its step scales the loss: chosen by the
/// options, continued from a checkpoint, and updated by each step. Used by one
/// thread.
class ScaledLoss {
public:
  /// `given` is the scaling of the options.
  ScaledLoss(bool isScaled, std::optional<LossScaling> given,
             OnNonfinite onNonfinite)
      : isScaled(isScaled), given(std::move(given)), onNonfinite(onNonfinite) {}

  /// Makes the scale of the first step. Throws SessionError(Misuse) if the
  /// options require a scale that the step cannot have.
  void start();
  /// Replaces the scale and its settings. Throws SessionError(Misuse), and then
  /// changes nothing.
  void set(const LossScaling &scaling, int64_t growthTracker);
  /// Updates the scale after a step.
  void update(bool isSkipped);

  /// Returns the scale of the next step; none if the step does not scale its
  /// loss.
  const std::optional<LossScale> &scale() const { return current; }

  /// Return a checkpoint's settings of the job with the loss scale, and
  /// without.
  nlohmann::json addTo(nlohmann::json job) const;
  static nlohmann::json removeFrom(nlohmann::json job);
  /// Continues from the settings, if they have a scale. Throws
  /// std::runtime_error, in which `origin` names their place.
  void takeFrom(const nlohmann::json &job, const std::string &origin);

private:
  void check() const;

  const bool isScaled;
  const std::optional<LossScaling> given;
  const OnNonfinite onNonfinite;
  std::optional<LossScale> current;
};

} // namespace fcdp
