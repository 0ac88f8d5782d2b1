// SPDX-License-Identifier: Apache-2.0
//
// In place of Gpu.cpp where the CUDA backend is not built.
#include "Gpu.h"

#include <stdexcept>

namespace fcdp::run {

void requireGpus() {
  throw std::runtime_error(
      "--device=cuda: this fcdp-run was built without the CUDA backend; build "
      "it with -DFCDP_CUDA=on, which says what it needs");
}

GpuBackend makeGpuBackend(const Options &, const Manifest &, Job &) {
  requireGpus();
  return {};
}

} // namespace fcdp::run
