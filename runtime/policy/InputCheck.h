// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/TensorView.h"
#include "plan/StepPlan.h"

#include <span>
#include <string>

namespace fcdp {

/// Returns "value 9 at position 3: expected [0, 5) or -100", or an empty string
/// if the input may have this value.
std::string describeBadValue(int64_t value, int64_t position,
                             const plan::InputT &input);

/// Throws SessionError(InputMismatch) unless `inputs` are those of all
/// micro-batches of a step, with values in range. For a step of several shapes
/// they may be smaller than its inputs, with equal sizes where they are equal
/// in all shapes. Returns the number of the least shape that all fit into.
uint32_t checkInputs(const StepPlan &plan, std::span<const TensorView> inputs);
/// Does the same for `batches` batches outside of steps, each of which has all
/// inputs of `expected`.
void checkBatches(StepPlan::Inputs expected, int64_t batches,
                  std::span<const TensorView> inputs);

} // namespace fcdp
