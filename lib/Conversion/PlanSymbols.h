// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConstantTable.h"
#include "Places.h"
#include "plan/Plan_generated.h"

namespace fcdp {

/// Describes the optimizer, parameters, buckets, buffers and inputs that a
/// module declares.
mlir::LogicalResult fillSymbols(plan::PlanT &plan, mlir::ModuleOp module,
                                const Places &places,
                                const ConstantTable &constants);

} // namespace fcdp
