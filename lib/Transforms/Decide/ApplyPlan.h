// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "StepDecisions.h"

namespace fcdp {

/// Merges buckets and shards states by the plan, and sets the decisions that
/// the module does not give.
mlir::LogicalResult applyPlan(mlir::ModuleOp module, const StepDecisions &plan);

} // namespace fcdp
