// SPDX-License-Identifier: Apache-2.0
//
// The device that a rank's step runs on.
#pragma once

#include "collectives/Job.h"
#include "core/Backend.h"
#include "step/Step.h"

namespace fcdp {

struct SessionOptions;

/// A backend, and how the step uses it.
struct Device {
  std::unique_ptr<Backend> backend;
  /// None on the CPU.
  std::optional<CudaDevice> gpu;
  /// Null unless operators are to be launched as graphs. Must not outlive the
  /// backend.
  std::unique_ptr<GraphCapture> graphs;
};

/// Throws std::runtime_error that says what is missing if no rank of this
/// process can run the step's target on this machine.
void requireDevice(const StepPlan &plan);

/// The groups of ranks that a plan needs over Gloo.
void chooseGroups(const StepPlan &plan, JobOptions &job);

/// Called by all ranks. `recorder` may be null. Throws std::runtime_error.
Device makeDevice(const SessionOptions &options, const StepPlan &plan, Job &job,
                  StepRecorder *recorder);

} // namespace fcdp
