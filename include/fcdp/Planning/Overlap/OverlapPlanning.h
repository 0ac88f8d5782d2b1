// SPDX-License-Identifier: Apache-2.0
//
// Decides when transfers are issued, so that they run beside compute and hold
// memory no longer than that takes. Knows no IR.
#pragma once

#include "fcdp/Planning/Overlap/OverlapProblem.h"

namespace fcdp {

/// The fastest of uniform distances and of just in time: fetches as late, and
/// sums noted as early, as makes compute wait no longer than the greatest
/// distances do. Of those that are within a thousandth of it, the smallest.
/// What does not fit is shortened where most memory is used. Fails if not even
/// the shortest distances fit, and says by how much.
/// Pre: problem.check() succeeds.
llvm::Expected<OverlapSolution> planOverlap(const OverlapProblem &problem);

} // namespace fcdp
