// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Transforms/PipelineOptions.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <memory>
#include <optional>

namespace fcdp {

/// Appends the passes from the choice of values to recompute to phase
/// scheduled.
using BuildRest =
    std::function<void(mlir::OpPassManager &, const PipelineOptions &)>;

/// Creates a pass that gives a step in phase imported the recomputation with
/// which it is the fastest of those that fit the device. It plans copies of the
/// step with several amounts of recomputation by the passes of `build`, which
/// may also move values and states to host memory, so that both are weighed
/// against each other. It then runs --fcdp-decide-remat with the best one. It
/// does nothing if a choice has been made.
std::unique_ptr<mlir::Pass>
createChooseRematPass(const PipelineOptions &options,
                      const std::optional<Cluster> &described, BuildRest build);

} // namespace fcdp
