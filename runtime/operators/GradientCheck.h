// SPDX-License-Identifier: Apache-2.0
//
// Whether the gradients of steps that have not been read yet are finite, and
// their norms.
#pragma once

#include "operators/StepState.h"

#include <optional>

namespace fcdp {

/// Looks at this rank's gradients at the end of a step, or at their norm if the
/// step clips them. On a GPU only the reader waits for the result. Used by the
/// issuing thread only.
class GradientCheck {
public:
  /// Reserves memory for `steps` unread steps.
  GradientCheck(StepState &state, size_t steps);

  /// Issues the check on the compute stream, for the unread step at `place`.
  void issue(const StepState &state, size_t place);
  /// Returns the bucket of the first gradient that is infinite or NaN, -1 if
  /// only their norm is known, or none. The check must be done.
  std::optional<int64_t> find(size_t place) const;
  /// The norm of all gradients, or none if the step does not clip them. The
  /// check must be done.
  std::optional<double> norm(size_t place) const;

private:
  /// Buckets with gradients, and these; none if the step clips gradients.
  std::vector<int64_t> buckets;
  std::vector<at::Tensor> gradients;
  /// Numbers that are NaN or infinite if a gradient is: on the device, in all
  /// and one by one, and on the host for each step.
  at::Tensor numbers, results;
  std::vector<at::Tensor> numberOf;
};

} // namespace fcdp
