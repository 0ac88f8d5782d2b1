// SPDX-License-Identifier: Apache-2.0
//
// Checks whether the gradients of unread steps are finite, and computes their
// norms.
#pragma once

#include "operators/StepState.h"

#include <optional>
#include <set>
#include <span>

namespace fcdp {

/// Checks this rank's gradients at the end of a step, or their norm if the step
/// clips them. On a GPU only the reader waits for the result. Used by the
/// issuing thread only.
class GradientCheck {
public:
  /// Reserves memory for `steps` unread steps. `early` has the buckets whose
  /// gradients are not there when the step ends.
  GradientCheck(StepState &state, size_t steps,
                std::span<const std::optional<size_t>> early);

  /// Issues the check of the gradients of `bucket`, which is one of these.
  void issueEarly(size_t bucket);
  /// Issues the check of the others on the compute stream, for the unread step
  /// at `place`.
  void issue(const StepState &state, size_t place);
  /// Returns the bucket of the first gradient that is infinite or NaN, or -1 if
  /// only the norm shows one. Returns none if all are finite. The check must be
  /// done.
  std::optional<int64_t> find(size_t place) const;
  /// Returns the norm of all gradients, or none if the step does not clip them.
  /// The check must be done.
  std::optional<double> norm(size_t place) const;

private:
  void check(size_t index);

  /// The buckets with gradients, and their gradients; empty if the step clips
  /// gradients.
  std::vector<int64_t> buckets;
  std::vector<at::Tensor> gradients;
  std::set<int64_t> earlyBuckets;
  /// Numbers that are NaN or infinite if a gradient is, which are the norm or
  /// the least and the greatest value of each bucket: on the device as one
  /// tensor and one by one, and on the host for each step.
  at::Tensor numbers, results;
  std::vector<at::Tensor> numberOf;
};

} // namespace fcdp
