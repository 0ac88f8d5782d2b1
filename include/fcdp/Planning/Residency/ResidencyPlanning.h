// SPDX-License-Identifier: Apache-2.0
//
// Decides where each bucket's gathered copy is kept between its uses, and
// whether its collectives are flat, so that a step takes the least time within
// the memory budgets. This code does not use the IR.
#pragma once

#include "fcdp/Planning/Residency/ResidencyProblem.h"

namespace fcdp {

/// Returns the fastest plan within the budgets. It is exact if there are few
/// plans (up to 6 buckets used both in the forward and in the backward pass, or
/// 4 where each may be flat). Otherwise it improves plans by single changes,
/// starting from every uniform plan and from plans that keep the copies that
/// are used again soonest. It is never worse than a uniform plan that fits.
/// Fails if no plan fits, and says by how many bytes.
llvm::Expected<ResidencySolution>
planResidency(const ResidencyProblem &problem);

} // namespace fcdp
