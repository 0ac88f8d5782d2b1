// SPDX-License-Identifier: Apache-2.0
//
// Makes the decisions of strategy `auto`.
#pragma once

#include "SearchTiming.h"
#include "StepDecisions.h"

namespace fcdp {

/// Chooses flat or two-level collectives for each bucket of a plan, so that a
/// step takes the least time. The residencies stay. `messages` prices what
/// buckets send between nodes.
mlir::LogicalResult planCollectives(mlir::ModuleOp module,
                                    const CostModel &model,
                                    const MessageCosts &messages,
                                    StepDecisions &plan);

/// Returns the plan with the least mean time of a step over the spread of the
/// cluster's inputs, weighted by the use of the network, and among equally good
/// plans the smallest. It searches plans as residency problems, which are
/// coarser than a schedule. The best of each search and the presets are then
/// scheduled and simulated in full, except for plans that cannot be the best.
/// The memory of the chosen plan is planned within the budget. Merged buckets
/// are used if the best plan with them is better than the best one without. If
/// no plan fits, returns none, and `why` gets the reason.
mlir::FailureOr<std::optional<StepDecisions>>
planStep(mlir::ModuleOp module, const CostModel &model,
         const StepChoices &choices, const SearchTiming &timing,
         std::string &why);

} // namespace fcdp
