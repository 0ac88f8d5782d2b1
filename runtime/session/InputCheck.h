// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "session/NamedTensor.h"

namespace fcdp {

/// "value 9 at position 3: expected [0, 5) or -100", or empty if the input may
/// hold `value`.
std::string describeBadValue(int64_t value, int64_t position,
                             const plan::InputT &input);

/// Throws SessionError(InputMismatch) unless `inputs` are those of all
/// micro-batches of a step, and their values are in range. Those of a step of
/// several shapes may be smaller than its inputs, with sizes that are equal
/// where they are in all variants. Returns the least variant that all fit into.
uint32_t checkInputs(const StepPlan &plan, std::span<const TensorView> inputs);
/// The same for `batches` batches of an evaluation.
void checkEvaluationInputs(const StepPlan &plan, int64_t batches,
                           std::span<const TensorView> inputs);

} // namespace fcdp
