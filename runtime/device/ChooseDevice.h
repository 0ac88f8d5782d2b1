// SPDX-License-Identifier: Apache-2.0
//
// Makes the device that a step was compiled for.
#pragma once

#include "device/Device.h"
#include "device/DeviceOptions.h"

namespace fcdp {

/// Throws std::runtime_error that says what is missing if no rank of this
/// process can run the step's target on this machine.
void requireDevice(const DeviceOptions &options, const StepPlan &plan);

/// Sets the groups of ranks that a plan needs over Gloo.
void chooseGroups(const StepPlan &plan, JobOptions &job);

/// Makes the device. All ranks must call it. `recorder` may be null. Throws
/// std::runtime_error.
RankDevice makeDevice(const DeviceOptions &options, const StepPlan &plan,
                      Job &job, StepRecorder *recorder);

} // namespace fcdp
