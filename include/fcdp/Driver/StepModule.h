// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Driver/StepOptions.h"
#include "fcdp/Report/StepFacts.h"
#include "fcdp/Support/OutputFile.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

namespace fcdp {

/// Reads a step from an archive that fcdp.export wrote, or from MLIR text in
/// any phase. Reports errors, and returns null after one.
mlir::OwningOpRef<mlir::ModuleOp> readStep(llvm::StringRef input,
                                           mlir::MLIRContext &context);

/// Refuses an output that is one of the archives that the module names, because
/// tools read values from them later.
llvm::Error checkArchives(mlir::ModuleOp module,
                          llvm::ArrayRef<NamedFile> outputs);

/// Returns success if `module`, read from `input`, agrees with the given
/// options whose passes it has already been through. Reports each option that
/// it does not agree with.
mlir::LogicalResult checkPastDecisions(mlir::ModuleOp module,
                                       llvm::StringRef input,
                                       const StepOptions &options);

/// Returns whether a plan depends on the cluster.
bool isPlannedForCluster(const PipelineOptions &options);

/// Returns options without memory limits, except where `auto` plans for a
/// cluster. A step that does not fit then still gets a plan, which shows by how
/// much it exceeds the memory.
PipelineOptions withoutBudget(PipelineOptions options);

/// A step in phase planned, and its measurements.
struct PlannedStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  StepFacts facts;
};

/// Returns a planned copy of `module`, decided for `described` if it is given.
/// Reports errors, and returns none after one. Passes are timed under `timing`.
std::optional<PlannedStep>
planCopy(mlir::ModuleOp module, const PipelineOptions &options,
         mlir::TimingScope &timing,
         const std::optional<Cluster> &described = std::nullopt);

} // namespace fcdp
