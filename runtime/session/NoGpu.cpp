// SPDX-License-Identifier: Apache-2.0
//
// Replaces Gpu.cpp in builds without the CUDA backend.
#include "session/Gpu.h"

#include <stdexcept>

namespace fcdp {

void requireGpus() {
  throw std::runtime_error(
      "the step was compiled for 'cuda', and this fcdp-run was built without "
      "the CUDA backend: build it with -DFCDP_CUDA=on, which says what it "
      "needs, or compile the step with --target=cpu");
}

RankDevice makeGpu(const SessionOptions &, const StepPlan &, Job &,
                   StepRecorder *) {
  requireGpus();
  return {};
}

} // namespace fcdp
