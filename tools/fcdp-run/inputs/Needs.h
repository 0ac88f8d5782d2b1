// SPDX-License-Identifier: Apache-2.0
//
// Finds the requirements of a step's rows before the step runs.
#pragma once

#include "inputs/ReadAhead.h"
#include "inputs/Shapes.h"

namespace fcdp::run {

/// Returns whether ranks agree on the requirements of a step, for which they
/// read the rows of all its micro-batches before it.
inline bool mustAgree(const StepPlan &plan) { return plan.hasNeeds(); }

/// Returns the requirements of a step's rows on world rank `rank`. `rows` has
/// all inputs of micro-batch 0, then those of micro-batch 1, and so on. Throws
/// SessionError(InputMismatch) if a weight of a loss is negative, infinite or
/// NaN.
StepNeeds findNeeds(const StepPlan &plan, const Shapes &shapes, uint32_t rank,
                    const ReadAhead::Buffers &rows);

} // namespace fcdp::run
