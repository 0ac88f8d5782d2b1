// SPDX-License-Identifier: Apache-2.0
//
// Checks the values of inputs by a step's own rules. A step that fcdp.export
// wrote with full_masks has the loss NaN if its inputs break them.
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
  Ones
};

/// Finds the rules from the plan's operations: where(all(x == 1), loss, NaN),
/// in which x is an input. Returns one rule for each input of the plan.
std::vector<InputRule> findInputRules(const StepPlan &plan);

/// Returns a message on the element of a tensor for `input` that breaks the
/// rule, or "". `data` has the elements of `shape`, which may be smaller than
/// the input.
std::string describeBrokenRule(InputRule rule, const plan::InputT &input,
                               const Shape &shape,
                               std::span<const std::byte> data);

} // namespace fcdp
