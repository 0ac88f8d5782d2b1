// SPDX-License-Identifier: Apache-2.0
//
// The search of strategy `auto` for plans. It solves residency problems.
#pragma once

#include "StepDecisions.h"

namespace fcdp {

/// Returns the plans that are worth a full simulation: the best of each search,
/// and the presets whose estimate fits the memory or is little above it. Skips
/// searches that cannot find a better plan than the other ones, or than
/// `known`.
std::vector<StepDecisions>
findFinalists(mlir::ModuleOp module, const CostModel &model,
              const StepChoices &choices, int64_t deviceBudget,
              const std::optional<ResidencyEstimate> &known);

/// Returns the reason why no plan fits: the memory that the smallest plan needs
/// with the current sharding.
std::string explainMissing(mlir::ModuleOp module, const CostModel &model,
                           const StepChoices &choices);

} // namespace fcdp
