// SPDX-License-Identifier: Apache-2.0
//
// The GPU of a rank.
#pragma once

#include "session/Device.h"
#include "session/SessionOptions.h"

namespace fcdp {

/// Throws std::runtime_error that says what is missing if no rank of this
/// program can run on a GPU of this machine: the backend in this program, a
/// CUDA driver, or the part for CUDA of libtorch, which it loads.
void requireGpus();

/// Called by all ranks. Local rank l gets device l, counted modulo the devices
/// that the process sees. `recorder` measures by that device's clock, and may
/// be null. Throws std::runtime_error.
RankDevice makeGpu(const SessionOptions &options, const StepPlan &plan,
                   Job &job, StepRecorder *recorder);

} // namespace fcdp
