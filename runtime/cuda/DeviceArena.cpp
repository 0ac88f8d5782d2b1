// SPDX-License-Identifier: Apache-2.0

#include "cuda/DeviceArena.h"
#include "core/Failure.h"

namespace fcdp {
namespace {

/// Returns the device's free memory in words.
std::string describeFreeMemory(const CudaLibrary &cuda) {
  auto [used, total] = cuda.memory();
  return std::to_string(total - used) + " of the device's " +
         std::to_string(total) + " bytes are free";
}

} // namespace

DeviceMemorySource cudaMemory(std::shared_ptr<const CudaLibrary> cuda) {
  auto allocate = [cuda](uint64_t bytes) {
    void *memory = nullptr;
    cuda->check(cuda->cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  };
  return {allocate, [cuda](void *memory) { (void)cuda->cudaFree(memory); }};
}

DeviceArena::DeviceArena(std::shared_ptr<const CudaLibrary> givenCuda,
                         uint64_t bytes, DeviceMemorySource given)
    : cuda(std::move(givenCuda)), source(std::move(given)), bytes(bytes) {
  if (bytes == 0)
    return;
  try {
    address = static_cast<std::byte *>(source.allocate(bytes));
  } catch (const std::runtime_error &error) {
    throw Failure("cannot reserve " + std::to_string(bytes) +
                      " bytes for the device arena: " + error.what() + "; " +
                      describeFreeMemory(*cuda),
                  FailureKind::OutOfMemory);
  }
  try {
    zero();
  } catch (...) {
    source.release(address);
    throw;
  }
}

void DeviceArena::zero() {
  cuda->check(cuda->cudaMemset(address, 0, bytes), "cudaMemset");
  // Our streams do not wait for the default stream, on which the memset runs.
  cuda->check(cuda->cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

DeviceArena::~DeviceArena() {
  if (address)
    source.release(address);
}

} // namespace fcdp
