// SPDX-License-Identifier: Apache-2.0
//
// Decides when transfers are issued, so that they run beside compute and use
// memory no longer than necessary. This code does not use the IR.
#pragma once

#include "fcdp/Planning/Overlap/OverlapProblem.h"

namespace fcdp {

/// Returns the solution that uses the least memory among those within a
/// thousandth of the fastest. The candidates are uniform distances and "just in
/// time", which issues fetches as late and accumulates as early as possible
/// without compute waiting longer than with the greatest distances. A solution
/// that does not fit is shortened where most memory is used. Fails if not even
/// the shortest distances fit, and says by how much; or if problem.check()
/// does.
llvm::Expected<OverlapSolution> planOverlap(const OverlapProblem &problem);

} // namespace fcdp
