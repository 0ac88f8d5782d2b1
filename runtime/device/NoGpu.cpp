// SPDX-License-Identifier: Apache-2.0
//
// Replaces Gpu.cpp in builds without the CUDA backend.
#include "device/Gpu.h"

#include <stdexcept>

namespace fcdp {

void requireGpus(const std::string &reason) {
  throw std::runtime_error(
      reason + ", and this fcdp-run was built without the CUDA backend: build "
               "it with -DFCDP_CUDA=on, which says what it needs, or use the "
               "target 'cpu'");
}

GpuFacts inspectGpu(const Place &) {
  requireGpus();
  return {};
}

ProbedGpu makeProbedGpu(const DeviceOptions &, const GpuRequest &, Job &) {
  requireGpus();
  return {};
}

RankDevice makeGpu(const DeviceOptions &, const StepPlan &, Job &,
                   StepRecorder *) {
  requireGpus();
  return {};
}

} // namespace fcdp
