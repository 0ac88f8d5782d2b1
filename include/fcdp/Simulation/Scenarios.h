// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Simulation/Uncertainty.h"

namespace fcdp {

/// Simulates `program`, whose costs are those of `cluster` and whose time is
/// `nominal`, in the scenarios of `inputs`. Only costs that depend on the input
/// are computed again, so this is faster than making a program for each
/// scenario.
ScenarioTimes simulateScenarios(const StepProgram &program,
                                const Cluster &cluster, double nominal,
                                llvm::ArrayRef<CostInput> inputs);

} // namespace fcdp
