// SPDX-License-Identifier: Apache-2.0
//
// The GPU of a rank.
#pragma once

#include "session/Device.h"
#include "session/SessionOptions.h"

#include <array>
#include <set>
#include <string>

namespace fcdp {

/// Throws std::runtime_error that says what is missing if no rank of this
/// program can run on a GPU of this machine: the backend in this program, a
/// CUDA driver, or the part for CUDA of libtorch, which it loads. `reason` says
/// who wants a GPU, and begins the message.
void requireGpus(const std::string &reason = "the step was compiled for "
                                             "'cuda'");

/// What a rank needs of its GPU.
struct GpuRequest {
  /// The groups over an axis, and the bytes of the messages that they will
  /// send, for which they are connected in advance.
  struct Groups {
    AxisGroups wanted{false, false};
    std::set<uint64_t> gathers = {}, exchanges = {};
  };

  Mesh mesh;
  uint64_t deviceBytes = 0;
  /// Bytes of the node's host memory, and this rank's part of it.
  uint64_t hostBytes = 0;
  StepPlan::HostPart hostPart;
  uint32_t numEvents = 0;
  std::array<Groups, kNumAxes> groups; ///< by `Axis`
  /// Whether ranks sum single numbers.
  bool hasAll = false;
};

/// A GPU, as CUDA describes it.
struct GpuFacts {
  /// Bytes of the device, and those in use once this process has its context.
  uint64_t memory = 0, context = 0;
  uint32_t processors = 0;
  uint32_t major = 0, minor = 0; ///< of the compute capability
};

/// Makes local rank l's device current, device l modulo the devices that the
/// process sees, and returns what it is. Throws std::runtime_error.
GpuFacts inspectGpu(const Place &place);

/// A GPU that is measured.
struct ProbedGpu {
  RankDevice device;
  /// Must not outlive the device.
  std::unique_ptr<StreamClock> clock;
  /// The most processors that a collective's kernel occupies.
  uint32_t collectiveProcessors = 0;
};

/// Called by all ranks. Throws std::runtime_error.
ProbedGpu makeProbedGpu(const SessionOptions &options,
                        const GpuRequest &request, Job &job);

/// Called by all ranks. Local rank l gets device l, counted modulo the devices
/// that the process sees. `recorder` measures by that device's clock, and may
/// be null. Throws std::runtime_error.
RankDevice makeGpu(const SessionOptions &options, const StepPlan &plan,
                   Job &job, StepRecorder *recorder);

} // namespace fcdp
