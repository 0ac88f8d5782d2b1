// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Driver/StepOptions.h"
#include "fcdp/Report/StepFacts.h"
#include "fcdp/Support/OutputFile.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

namespace fcdp {

/// Reads a step, an archive that fcdp.export wrote or MLIR text at any phase.
/// Null after an error, which is reported.
mlir::OwningOpRef<mlir::ModuleOp> readStep(llvm::StringRef input,
                                           mlir::MLIRContext &context);

/// Refuses an output that is one of the archives that the module names, whose
/// values a tool reads later.
llvm::Error checkArchives(mlir::ModuleOp module,
                          llvm::ArrayRef<NamedFile> outputs);

/// Whether `module`, read from `input`, agrees with those of the options given
/// that acted on it before. Reports each that it does not agree with.
mlir::LogicalResult checkPastDecisions(mlir::ModuleOp module,
                                       llvm::StringRef input,
                                       const StepOptions &options);

/// Whether a plan differs from cluster to cluster.
bool isPlannedForCluster(const PipelineOptions &options);

/// Returns options without memory limits, except where `auto` plans for a
/// cluster. A step that does not fit then still gets a plan, which shows by how
/// much it exceeds the memory.
PipelineOptions withoutBudget(PipelineOptions options);

/// A step in phase planned, and what was measured of it.
struct PlannedStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  StepFacts facts;
};

/// Returns a planned copy of `module`, decided for `described` where there is
/// one; none after an error, which is reported. Passes are timed under
/// `timing`.
std::optional<PlannedStep>
planCopy(mlir::ModuleOp module, const PipelineOptions &options,
         mlir::TimingScope &timing,
         const std::optional<Cluster> &described = std::nullopt);

} // namespace fcdp
