// SPDX-License-Identifier: Apache-2.0
//
// Replaces TorchCuda.cpp if libtorch has no part for CUDA.
#include "device/TorchCuda.h"

#include <stdexcept>

namespace fcdp {

void requireTorchForCuda(const std::string &reason) {
  throw std::runtime_error(
      reason + ": this libtorch has no part for CUDA; build fcdp-run with that "
               "of a PyTorch for CUDA, by -DFCDP_TORCH_DIR");
}

c10::DeviceAllocator &routeCudaAllocations(int) {
  requireTorchForCuda("a GPU is wanted");
  throw std::logic_error("libtorch has a part for CUDA");
}

std::unique_ptr<GraphCapture> withOwnMemory(std::unique_ptr<GraphCapture>,
                                            c10::DeviceAllocator &, int,
                                            void *) {
  requireTorchForCuda("a GPU is wanted");
  throw std::logic_error("libtorch has a part for CUDA");
}

} // namespace fcdp
