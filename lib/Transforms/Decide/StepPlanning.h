// SPDX-License-Identifier: Apache-2.0
//
// Makes the decisions of strategy `auto`.
#pragma once

#include "SearchTiming.h"
#include "StepDecisions.h"

namespace fcdp {

/// Merges buckets and cuts states as the plan has it, and writes what is not
/// given.
mlir::LogicalResult applyPlan(mlir::ModuleOp module, const StepDecisions &plan);

/// Chooses, for each bucket of a plan, what makes a step take the least time:
/// flat collectives or two-level ones. Its residencies stay. `wires` is what is
/// sent.
mlir::LogicalResult planCollectives(mlir::ModuleOp module,
                                    const CostModel &model,
                                    const WireChoice &wires,
                                    StepDecisions &plan);

/// The plan with which a step takes the least time on average over the spread
/// of the cluster's inputs, and of equally fast ones the smallest. Plans are
/// searched as residency problems, which are coarser than a schedule; the best
/// of each search, and what presets would do, are scheduled and simulated in
/// full, but for those that cannot be the fastest, and the one that is taken
/// has its memory planned within the budget. Merged buckets are taken if the
/// best plan with them is faster than the best one without. Fails, and says so
/// on `module`, if no plan fits.
mlir::FailureOr<StepDecisions> planStep(mlir::ModuleOp module,
                                        const CostModel &model,
                                        const StepChoices &choices,
                                        const SearchTiming &timing);

} // namespace fcdp
