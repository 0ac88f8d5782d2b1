// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <optional>

namespace fcdp {

#define GEN_PASS_DECL
#include "fcdp/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "fcdp/Transforms/Passes.h.inc"

/// Passes that decide for `described`, where there is one, in place of what
/// their options name.
std::unique_ptr<mlir::Pass>
createDecideRematPass(DecideRematPassOptions options,
                      std::optional<Cluster> described);
std::unique_ptr<mlir::Pass> createDecidePass(DecidePassOptions options,
                                             std::optional<Cluster> described);
std::unique_ptr<mlir::Pass>
createDecideOverlapPass(DecideOverlapPassOptions options,
                        std::optional<Cluster> described);

/// What `--fcdp-pipeline` and fcdp-compile are asked for.
struct PipelineOptions {
  /// `cpu` or `cuda`; what the step was exported on if empty.
  std::string target;
  int64_t nodes = 1;
  /// Ranks of a node.
  int64_t ranksPerNode = 1;
  /// Micro-batches per optimizer step.
  int64_t microBatches = 1;
  /// See parseStrategy; or `auto`.
  std::string strategy = "fcdp";
  /// See loadCluster; needed by `auto`.
  std::string cluster;
  /// See loadProfile; none if empty.
  std::string profile;
  /// In place of `cluster` and `profile`, what stands in no file.
  std::optional<Cluster> describedCluster;
  /// Bytes of a rank's device, and of a node's host memory, that `auto` may
  /// use; 0: what the cluster has.
  int64_t deviceMemory = 0, hostMemory = 0;
  /// See parseAccumulation; the strategy's choice if empty.
  std::string accumulate;
  /// See parseCollectives; if empty `two-level`, or `auto` with strategy auto.
  std::string collectives;
  /// Units that a gather is issued ahead, and units whose reductions may run at
  /// once; negative: the strategy's choice.
  int64_t prefetch = -1, reductions = -1;
  /// See parseRemat.
  std::string remat = "none";
  /// See parseLayout.
  std::string layout = "flat";
  /// Greatest bytes of a merged bucket; 0: one bucket per unit; negative: the
  /// strategy's choice.
  int64_t bucketBytes = -1;
  /// See parseOptimizer.
  std::string optimizer = "adamw";
  /// Greatest norm of a step's gradients; 0: no bound.
  double clipNorm = 0;
  /// Where the module is written after each phase; nowhere if empty.
  std::string dumpDir;
};

/// Appends the passes that take a module from phase `from` to phase `planned`.
void buildFcdpPipeline(mlir::OpPassManager &pm, const PipelineOptions &options,
                       Phase from = Phase::imported);

/// Registers `--fcdp-pipeline`.
void registerFcdpPipeline();

} // namespace fcdp
