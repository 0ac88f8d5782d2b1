// SPDX-License-Identifier: Apache-2.0
//
// The parts of buildPlan, in its order. Each reports its errors.
#pragma once

#include "Slots.h"
#include "dialects/Aten/Aten.h"
#include "fcdp/Conversion/TensorReader.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Returns the operations of the module's functions that do something, in
/// order: those of the plan. Refuses what the runtime has no operation for, and
/// functions that are not members of a step's family.
mlir::FailureOr<std::vector<mlir::Operation *>>
collectCalls(mlir::ModuleOp module, const Places &places);

/// Checks that no value of a buffer is used after the buffer was given its
/// next value: a buffer has one memory, where the value would have changed.
mlir::LogicalResult verifyBufferWrites(mlir::func::FuncOp function);

/// Returns the first update whose optimizer is that of the plan: one that needs
/// a layout, or else any; null if nothing is updated.
ShardUpdateOp findFirstUpdate(mlir::ModuleOp module);

/// Describes an optimizer.
void setOptimizer(plan::OptimizerUnion &out, mlir::Attribute optimizer);

/// Describes the optimizer, parameters, buckets, buffers and inputs that a
/// module declares, and appends to `constants` the values of the buffers that
/// are not persistent.
mlir::LogicalResult fillSymbols(plan::PlanT &plan, std::string &constants,
                                mlir::ModuleOp module, const Places &places,
                                TensorReader readTensor);

/// Describes the functions of `module`, whose operations in the plan are
/// `calls`, and the arenas, by `memory`: which memory is reserved when, where
/// results of operators are expected, and what each function sends.
void fillFunctions(plan::PlanT &plan, mlir::ModuleOp module,
                   const DeviceMemory &memory,
                   llvm::ArrayRef<mlir::Operation *> calls);

/// Describes the operations `calls`. Reports an error of each.
mlir::LogicalResult fillOps(plan::PlanT &plan, const Places &places,
                            const SlotTable &slots,
                            llvm::ArrayRef<mlir::Operation *> calls);

/// Describes the arguments of a call.
mlir::LogicalResult fillArguments(plan::AtenCallT &out, aten::CallOp op,
                                  const SlotTable &slots);

} // namespace fcdp
