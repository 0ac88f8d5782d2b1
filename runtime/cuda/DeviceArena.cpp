// SPDX-License-Identifier: Apache-2.0

#include "cuda/DeviceArena.h"

namespace fcdp {

DeviceArena::DeviceArena(std::shared_ptr<const CudaLibrary> givenCuda,
                         uint64_t bytes)
    : cuda(std::move(givenCuda)), bytes(bytes) {
  if (bytes == 0)
    return;
  void *allocated = nullptr;
  cuda->check(cuda->cudaMalloc(&allocated, bytes),
              ("cannot reserve " + std::to_string(bytes) +
               " bytes for the device arena: cudaMalloc")
                  .c_str());
  address = static_cast<std::byte *>(allocated);
  cuda->check(cuda->cudaMemset(address, 0, bytes), "cudaMemset");
  // Our streams do not wait for the default stream, on which the memset runs.
  cuda->check(cuda->cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

DeviceArena::~DeviceArena() {
  if (address)
    (void)cuda->cudaFree(address);
}

} // namespace fcdp
