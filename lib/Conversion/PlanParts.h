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

/// Returns the operations of the module's functions that the plan contains, in
/// order. These are the ones that do something. Refuses operations that the
/// runtime does not have, and functions that are not members of a step's
/// family.
mlir::FailureOr<std::vector<mlir::Operation *>>
collectCalls(mlir::ModuleOp module, const Places &places);

/// Checks that no value of a buffer is used after the buffer gets its next
/// value. A buffer has one memory, so the earlier value would be overwritten
/// there.
mlir::LogicalResult verifyBufferWrites(mlir::func::FuncOp function);

/// Returns the first update with the optimizer that the plan names: one that
/// needs a layout, or else any. Returns null if nothing is updated.
UpdateOpInterface findFirstUpdate(mlir::ModuleOp module);

/// Describes an optimizer.
void setOptimizer(plan::OptimizerUnion &out, mlir::Attribute optimizer);

/// Describes the optimizer, parameters, buckets, buffers and inputs that a
/// module declares, and appends to `constants` the values of the buffers that
/// are not persistent.
mlir::LogicalResult fillSymbols(plan::PlanT &plan, std::string &constants,
                                mlir::ModuleOp module, const Places &places,
                                TensorReader readTensor);

/// Describes the functions of `module`, whose operations in the plan are
/// `calls`, and the arenas, by `memory`: the memory that is reserved at each
/// time, the expected places of operator results, and the bytes that each
/// function sends.
void fillFunctions(plan::PlanT &plan, mlir::ModuleOp module,
                   const DeviceMemory &memory,
                   llvm::ArrayRef<mlir::Operation *> calls);

/// Describes the settings by which only some steps synchronize nodes, if the
/// module has them.
void fillSynchronization(plan::PlanT &plan, mlir::ModuleOp module);

/// Describes the kernels of `module`, after it has checked their calls.
mlir::LogicalResult fillKernels(plan::PlanT &plan, mlir::ModuleOp module);

/// Describes the operations `calls`. Reports an error for each that fails.
mlir::LogicalResult fillOps(plan::PlanT &plan, const Places &places,
                            const SlotTable &slots,
                            llvm::ArrayRef<mlir::Operation *> calls);

/// Describes the arguments of a call.
mlir::LogicalResult fillArguments(plan::AtenCallT &out, aten::CallOp op,
                                  const SlotTable &slots);

} // namespace fcdp
