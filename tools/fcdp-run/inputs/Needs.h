// SPDX-License-Identifier: Apache-2.0
//
// What a step needs to know of its rows ahead of it.
#pragma once

#include "inputs/ReadAhead.h"
#include "inputs/Shapes.h"

namespace fcdp::run {

/// Whether ranks agree on what a step needs, for which they look at the rows of
/// all its micro-batches ahead of it.
inline bool mustAgree(const StepPlan &plan) {
  return plan.numVariants() > 1 || plan.weightsLoss();
}

/// Returns what the rows of a step need on world rank `rank`: all inputs of
/// micro-batch 0, then those of micro-batch 1, and so on. Throws
/// SessionError(InputMismatch) if a weight of a loss is negative, infinite or
/// NaN.
StepNeeds findNeeds(const StepPlan &plan, const Shapes &shapes, uint32_t rank,
                    const ReadAhead::Buffers &rows);

} // namespace fcdp::run
