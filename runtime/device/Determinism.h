// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/TorchSettings.h"
#include "plan/StepPlan.h"

namespace fcdp {

/// Makes operators with those settings give the same bits in each run on the
/// same device, as torch.use_deterministic_algorithms(True) does. An operator
/// that cannot then throws. New memory is not filled, because every operator
/// writes its results. Sets CUBLAS_WORKSPACE_CONFIG, so it must be called
/// before libtorch uses a GPU. Throws std::runtime_error if the user has set
/// that variable to a value with which cuBLAS is not deterministic.
void makeDeterministic(TorchSettings &settings);

/// Throws std::runtime_error if the plan has a nondeterministic operator that
/// libtorch does not refuse. libtorch only avoids choosing cuDNN's attention,
/// but a plan may name it.
void requireDeterministic(const StepPlan &plan);

} // namespace fcdp
