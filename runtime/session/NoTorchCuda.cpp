// SPDX-License-Identifier: Apache-2.0
//
// Replaces TorchCuda.cpp if libtorch has no part for CUDA.
#include "session/TorchCuda.h"

#include <stdexcept>

namespace fcdp {

void requireTorchForCuda() {
  throw std::runtime_error(
      "the step was compiled for 'cuda': this libtorch has no part for CUDA; "
      "build fcdp-run with that of a PyTorch for CUDA, by -DFCDP_TORCH_DIR");
}

c10::DeviceAllocator &routeCudaAllocations(int) {
  requireTorchForCuda();
  throw std::logic_error("libtorch has a part for CUDA");
}

std::unique_ptr<GraphCapture> withOwnMemory(std::unique_ptr<GraphCapture>,
                                            c10::DeviceAllocator &, int,
                                            void *) {
  requireTorchForCuda();
  throw std::logic_error("libtorch has a part for CUDA");
}

} // namespace fcdp
