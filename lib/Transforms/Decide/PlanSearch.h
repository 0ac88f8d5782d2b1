// SPDX-License-Identifier: Apache-2.0
//
// Where strategy `auto` looks for plans: in residency problems.
#pragma once

#include "StepPlanning.h"

namespace fcdp {

/// Plans that are worth to be simulated in full: the best of the searches, and
/// what presets would do, as far as they are estimated to fit or to take little
/// more. Searches that
/// cannot find a better plan than others, or than `known`, are left out.
std::vector<StepPlan>
findFinalists(mlir::ModuleOp module, const CostModel &model,
              const StepChoices &choices, int64_t deviceBudget,
              const std::optional<ResidencyEstimate> &known);

/// Why there are none: what the smallest plan takes too much, of states cut as
/// they are.
std::string explainMissing(mlir::ModuleOp module, const CostModel &model,
                           const StepChoices &choices);

} // namespace fcdp
