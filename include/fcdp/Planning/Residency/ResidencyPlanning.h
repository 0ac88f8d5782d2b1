// SPDX-License-Identifier: Apache-2.0
//
// Decides where each bucket's gathered copy lives between its uses, and whether
// its collectives are flat, so that a step takes the least time within the
// memory that there is. Knows no IR.
#pragma once

#include "fcdp/Planning/Residency/ResidencyProblem.h"

namespace fcdp {

/// The fastest plan within the budgets. Exact where there are few plans in all
/// (up to 6 buckets between forward and backward, 4 where each may be flat);
/// else the best that is found
/// from every uniform plan and from thresholds along the order in which copies
/// are used again soonest, by single changes. Never worse than a uniform plan
/// that fits. Fails if no plan fits, and says by how much.
llvm::Expected<ResidencySolution>
planResidency(const ResidencyProblem &problem);

} // namespace fcdp
