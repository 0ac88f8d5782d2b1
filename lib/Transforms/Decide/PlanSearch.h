// SPDX-License-Identifier: Apache-2.0
//
// The search of strategy `auto` for plans. It solves residency problems.
#pragma once

#include "StepDecisions.h"

namespace fcdp {

/// Returns the plans that are worth a full simulation: the best of each search,
/// and those of presets if they are estimated to fit or to take little more.
/// Searches are left out that cannot find a better plan than others, or than
/// `known`.
std::vector<StepDecisions>
findFinalists(mlir::ModuleOp module, const CostModel &model,
              const StepChoices &choices, int64_t deviceBudget,
              const std::optional<ResidencyEstimate> &known);

/// Returns the reason why no plan fits: how much memory the smallest plan takes
/// with the present sharding.
std::string explainMissing(mlir::ModuleOp module, const CostModel &model,
                           const StepChoices &choices);

} // namespace fcdp
