// SPDX-License-Identifier: Apache-2.0
//
// In place of Gpu.cpp where the CUDA backend is not built.
#include "Gpu.h"

#include <stdexcept>

namespace fcdp::run {

void requireGpus() {
  throw std::runtime_error(
      "the step was compiled for 'cuda', and this fcdp-run was built without "
      "the CUDA backend: build it with -DFCDP_CUDA=on, which says what it "
      "needs, or compile the step with --target=cpu");
}

GpuBackend makeGpuBackend(const Options &, const Manifest &, Job &,
                          StepRecorder *) {
  requireGpus();
  return {};
}

} // namespace fcdp::run
