// SPDX-License-Identifier: Apache-2.0
#include "TorchCuda.h"

#include "step/Pool.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <stdexcept>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

namespace fcdp::run {

namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator;
using Pluggable = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

/// What is asked for by raw pointer, as some kernels do for themselves, comes
/// from `system` always. Thread-safe.
class RoutingAllocator final : public Pluggable {
public:
  explicit RoutingAllocator(CUDAAllocator &system)
      : Pluggable(
            [&system](size_t bytes, int, cudaStream_t stream) {
              return system.raw_alloc_with_stream(bytes, stream);
            },
            [&system](void *data, size_t, int, cudaStream_t) {
              system.raw_delete(data);
            }),
        system(system) {}

  c10::DataPtr allocate(size_t bytes) override {
    Pool *pool = Pool::active();
    bool isForPool = bytes != 0 && pool && pool->device().is_cuda();
    // The plan counts the tag that the CPU needs.
    return isForPool ? pool->allocate(bytes + kPoolTagBytes)
                     : system.allocate(bytes);
  }

private:
  CUDAAllocator &system;
};

} // namespace

void requireTorchForCuda() {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    throw std::runtime_error(
        "the step was compiled for 'cuda': libtorch_cuda.so is loaded, but "
        "libtorch does not know it: they are of different "
        "versions");
}

c10::DeviceAllocator &routeCudaAllocations(int devices) {
  static CUDAAllocator &system = [devices]() -> CUDAAllocator & {
    CUDAAllocator &own = *c10::cuda::CUDACachingAllocator::get();
    changeCurrentAllocator(std::make_shared<RoutingAllocator>(own));
    // libtorch does that for the current allocator only.
    own.init(devices);
    return own;
  }();
  return system;
}

} // namespace fcdp::run
