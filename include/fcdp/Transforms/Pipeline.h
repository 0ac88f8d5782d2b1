// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Transforms/PipelineOptions.h"
#include "mlir/Pass/PassManager.h"

#include <optional>

namespace fcdp {

/// Appends the passes that take a module from phase `from` to phase `planned`.
/// Decisions are made for `described`, if it is given, instead of the cluster
/// and profile that the options name.
void buildFcdpPipeline(mlir::OpPassManager &pm, const PipelineOptions &options,
                       Phase from = Phase::imported,
                       const std::optional<Cluster> &described = std::nullopt);

/// Registers `--fcdp-pipeline`.
void registerFcdpPipeline();

} // namespace fcdp
