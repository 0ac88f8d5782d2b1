// SPDX-License-Identifier: Apache-2.0
//
// Treats infinite and NaN numbers of a session's steps.
#pragma once

#include "core/OnNonfinite.h"
#include "core/SessionError.h"
#include "plan/StepPlan.h"
#include "policy/LossScale.h"
#include "policy/StepStats.h"

#include <optional>

namespace fcdp {

/// Finds the error with which infinite and NaN numbers end a session. Used by
/// one thread.
class NonfiniteCheck {
public:
  NonfiniteCheck(const StepPlan &plan, OnNonfinite onNonfinite)
      : plan(plan), onNonfinite(onNonfinite) {}

  /// Returns the error with which a number of the step ends the session, or
  /// none. `scale` is the loss scale of the next step, if there is one.
  std::optional<SessionError>
  errorOf(const StepStats &stats, const std::optional<LossScale> &scale) const;

  /// Records the first such error of a rank's own numbers. `step` is the number
  /// of their step.
  void note(const RankStats &own, int64_t step, uint32_t rank,
            const std::optional<LossScale> &scale);
  /// Returns the error that was recorded.
  const std::optional<SessionError> &noted() const { return error; }

private:
  const StepPlan &plan;
  const OnNonfinite onNonfinite;
  std::optional<SessionError> error;
};

} // namespace fcdp
