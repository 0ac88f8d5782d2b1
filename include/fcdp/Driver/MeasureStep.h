// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/StepFacts.h"
#include "mlir/Pass/Pass.h"

#include <functional>

namespace fcdp {

/// Returns a pass that measures a planned module and calls `use` with the
/// result. It changes nothing, and fails if `use` does.
std::unique_ptr<mlir::Pass>
createMeasureStepPass(std::function<mlir::LogicalResult(StepFacts)> use);

} // namespace fcdp
