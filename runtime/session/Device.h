// SPDX-License-Identifier: Apache-2.0
//
// The device that a rank's step runs on.
#pragma once

#include "collectives/Job.h"
#include "core/Backend.h"
#include "step/Step.h"

namespace fcdp {

/// A backend, and how the step uses it.
struct Device {
  std::unique_ptr<Backend> backend;
  /// None on the CPU.
  std::optional<CudaDevice> gpu;
  /// Null unless operators are to be launched as graphs. Must not outlive the
  /// backend.
  std::unique_ptr<GraphCapture> graphs;
};

} // namespace fcdp
