// SPDX-License-Identifier: Apache-2.0
//
// What a rank needs to run on a GPU.
#pragma once

#include "collectives/Job.h"
#include "core/Backend.h"
#include "step/Step.h"

namespace fcdp::run {

struct Options;

/// Throws std::runtime_error that says what is missing if no rank of this
/// program can run on a GPU of this machine: the backend in this program, a
/// CUDA driver, or the part for CUDA of libtorch, which it loads.
void requireGpus();

/// A backend on this rank's GPU, and that GPU for the step.
struct GpuBackend {
  std::unique_ptr<Backend> backend;
  CudaDevice device;
  /// Null unless --cuda-graphs asks for graphs; must not outlive the backend.
  std::unique_ptr<GraphCapture> graphs;
};

/// Called by all ranks. Local rank l gets device l, counted modulo the devices
/// that the process sees. `recorder` measures by that device's clock; null if
/// nobody measures. Throws std::runtime_error.
GpuBackend makeGpuBackend(const Options &options, const Manifest &manifest,
                          Job &job, StepRecorder *recorder);

} // namespace fcdp::run
