// SPDX-License-Identifier: Apache-2.0
//
// What a step demands of the values of its inputs: the loss is NaN if they are
// others. fcdp.export writes it into a step with full_masks.
#pragma once

#include "plan/StepPlan.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace fcdp {

enum class InputRule {
  None,
  /// All elements are 1.
  Ones,
  /// Each element is greater by one than the one before it in the last
  /// dimension.
  Counts
};

/// Finds them by what a plan computes: where(all(x == 1), loss, NaN), in which
/// x is an input, or the difference of two slices of it. Returns one for each
/// input of the plan.
std::vector<InputRule> findInputRules(const StepPlan &plan);

/// Says which element of a tensor for `input` breaks the rule, or returns "".
/// `data` has the elements of `shape`, which may be smaller than the input.
std::string describeBrokenRule(InputRule rule, const plan::InputT &input,
                               const Shape &shape,
                               std::span<const std::byte> data);

} // namespace fcdp
