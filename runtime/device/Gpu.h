// SPDX-License-Identifier: Apache-2.0
//
// Prepares the GPU of a rank.
#pragma once

#include "device/Device.h"
#include "device/DeviceOptions.h"

#include <array>
#include <set>
#include <string>

namespace fcdp {

/// Throws std::runtime_error unless ranks of this program can run on a GPU of
/// this machine. The message says what is missing: the backend in this program,
/// a CUDA driver, or libtorch's part for CUDA, which this function loads. It
/// begins with `reason`, which says why a GPU is needed.
void requireGpus(const std::string &reason = "the step was compiled for "
                                             "'cuda'");

/// The properties of its GPU that a rank needs.
struct GpuRequest {
  /// The groups over an axis, and the bytes of the messages that they will
  /// send. The groups are connected for these in advance.
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
  std::array<Groups, kNumAxes> groups; ///< by `AxisId`
  /// Whether ranks sum single numbers.
  bool hasAll = false;
};

/// Facts that CUDA reports about a GPU.
struct GpuFacts {
  /// Bytes of the device, and those in use after this process has created its
  /// context.
  uint64_t memory = 0, context = 0;
  uint32_t processors = 0;
  uint32_t major = 0, minor = 0; ///< of the compute capability
};

/// Makes local rank l's device current, device l modulo the devices that the
/// process sees, and returns its facts. Throws std::runtime_error.
GpuFacts inspectGpu(const Place &place);

/// A GPU for measurements.
struct ProbedGpu {
  RankDevice device;
  /// The clock of the device, which must not outlive it.
  std::unique_ptr<StreamClock> clock;
  /// The most processors that a collective's kernel occupies.
  uint32_t collectiveProcessors = 0;
};

/// Makes a GPU for measurements. All ranks must call it. Throws
/// std::runtime_error.
ProbedGpu makeProbedGpu(const DeviceOptions &options, const GpuRequest &request,
                        Job &job);

/// Makes the GPU of this rank. All ranks must call it. Local rank l gets device
/// l, counted modulo the devices that the process sees. `recorder` measures by
/// that device's clock, and may be null. Throws std::runtime_error.
RankDevice makeGpu(const DeviceOptions &options, const StepPlan &plan, Job &job,
                   StepRecorder *recorder);

} // namespace fcdp
