// SPDX-License-Identifier: Apache-2.0
//
// The plan that a compiled step passes to the runtime: runtime/plan/Plan.fbs.
#pragma once

#include "fcdp/Conversion/TensorReader.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "plan/Plan_generated.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace fcdp {

/// The contents of an object.
struct CompiledPlan {
  plan::PlanT plan;
  /// The values of buffers that are not persistent, at the plan's offsets.
  std::string constants;
};

/// Describes `module`, which is in phase `planned` and has the device memory
/// `memory`. Reads constants by `readTensor`. Reports errors as diagnostics of
/// the operations.
mlir::FailureOr<CompiledPlan> buildPlan(mlir::ModuleOp module,
                                        DeviceMemoryAnalysis &memory,
                                        TensorReader readTensor);

/// Returns the number of the archive (getArchives) that has the value of a
/// buffer.
size_t getArchiveOf(const plan::BufferT &buffer);

/// Returns the SHA-1 of `bytes` as 40 lower-case hex digits.
std::string hashBytes(llvm::StringRef bytes);

/// Returns the plan as FlatBuffers bytes; equal plans give equal bytes.
std::string packPlan(const plan::PlanT &plan);
/// Verifies `bytes` and returns the plan in them. Errors name `origin`.
llvm::Expected<std::unique_ptr<plan::PlanT>> unpackPlan(llvm::StringRef bytes,
                                                        llvm::StringRef origin);

/// Returns the plan as JSON by the schema, with every scalar, and one operation
/// per line.
std::string printPlan(const plan::PlanT &plan);
/// Parses the output of printPlan, which may have been edited. Errors name
/// `origin`.
llvm::Expected<std::unique_ptr<plan::PlanT>> parsePlan(llvm::StringRef json,
                                                       llvm::StringRef origin);

/// Adds the symbols that an object exports (fcdp/runtime.h) to a module: data
/// as LLVM globals, and kernels as operations. Reports kernels that cannot be
/// read.
mlir::LogicalResult addPlanGlobals(mlir::ModuleOp module,
                                   const CompiledPlan &compiled);
/// Adds the kernels of a plan alone.
mlir::LogicalResult addKernels(mlir::ModuleOp module, const plan::PlanT &plan);

} // namespace fcdp
