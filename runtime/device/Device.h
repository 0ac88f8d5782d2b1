// SPDX-License-Identifier: Apache-2.0
//
// The device that a rank's step runs on.
#pragma once

#include "core/Backend.h"
#include "job/Job.h"
#include "step/Step.h"

namespace fcdp {

/// A backend, and the settings for its use by the step.
struct RankDevice {
  std::unique_ptr<Backend> backend;
  /// Not set on the CPU.
  std::optional<CudaDevice> gpu;
  /// Captures operators as graphs; null to launch them one by one. It must not
  /// outlive the backend.
  std::unique_ptr<GraphCapture> graphs;
};

} // namespace fcdp
