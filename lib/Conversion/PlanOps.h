// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Places.h"
#include "Slots.h"
#include "dialects/Aten/Aten.h"

namespace fcdp {

/// Describes the operations that collectCalls gives. Reports an error of each.
mlir::LogicalResult fillOps(plan::PlanT &plan, mlir::ModuleOp module,
                            const Places &places, const SlotTable &slots,
                            llvm::ArrayRef<mlir::Operation *> calls);

/// Fills in the arguments of a call.
mlir::LogicalResult fillArguments(plan::AtenCallT &out, aten::CallOp op,
                                  const SlotTable &slots);

} // namespace fcdp
