// SPDX-License-Identifier: Apache-2.0
#include "device/TorchCuda.h"

#include "cuda/CudaLibrary.h"
#include "device/ForwardingAllocator.h"
#include "memory/Pool.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <stdexcept>
#include <utility>

// A header of libtorch's calls this function by name, in a virtual function.
// Programs are not linked with libcudart, so this calls the loaded library.
extern "C" __attribute__((visibility("hidden"))) cudaError_t
cudaMemGetInfo(size_t *free, size_t *total) {
  return fcdp::CudaLibrary::load()->cudaMemGetInfo(free, total);
}

namespace fcdp {

namespace {

using torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator;

/// Allocates from the pool of the current thread, or else from `system`. Raw
/// allocations, which some kernels make for themselves, always come from
/// `system`. Thread-safe.
class RoutingAllocator final : public ForwardingAllocator {
public:
  using ForwardingAllocator::ForwardingAllocator;

  c10::DataPtr allocate(size_t bytes) override {
    ResultPool *pool = ResultPool::active();
    bool isForPool = bytes != 0 && pool && pool->device().is_cuda();
    // The plan counts the tag that the CPU needs.
    return isForPool ? pool->allocate(bytes + kPoolTagBytes)
                     : system.allocate(bytes);
  }
};

/// All its graphs share one memory pool: they run one after another on one
/// stream, and no graph reads memory of another.
class CaptureWithMemory final : public GraphCapture {
public:
  CaptureWithMemory(std::unique_ptr<GraphCapture> given,
                    CUDAAllocator &allocator, int device, cudaStream_t stream)
      : capture(std::move(given)), allocator(allocator),
        device(c10::DeviceIndex(device)), stream(stream),
        pool(at::cuda::graph_pool_handle()) {}

  ~CaptureWithMemory() override {
    abandon();
    for (; numBegun > 0; --numBegun)
      allocator.releasePool(device, pool);
  }

  void begin() override {
    allocator.beginAllocateToPool(
        device, pool,
        [own = stream](cudaStream_t asks) { return asks == own; });
    ++numBegun;
    isOpen = true;
    markCapture(allocator, device, true);
    capture->begin();
  }
  std::unique_ptr<ComputeGraph> end() override {
    std::unique_ptr<ComputeGraph> graph = capture->end();
    close();
    return graph;
  }
  void abandon() noexcept override {
    capture->abandon();
    close();
  }

private:
  void close() {
    if (!std::exchange(isOpen, false))
      return;
    markCapture(allocator, device, false);
    allocator.endAllocateToPool(device, pool);
  }

  const std::unique_ptr<GraphCapture> capture;
  CUDAAllocator &allocator;
  const c10::DeviceIndex device;
  const cudaStream_t stream;
  const c10::MempoolId_t pool;
  size_t numBegun = 0;
  bool isOpen = false;
};

} // namespace

void requireTorchForCuda(const std::string &reason) {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    throw std::runtime_error(
        reason + ": libtorch_cuda.so is loaded, but libtorch does not know "
                 "it: they are of different versions");
}

c10::DeviceAllocator &routeCudaAllocations(int devices) {
  static CUDAAllocator &system = [devices]() -> CUDAAllocator & {
    CUDAAllocator &own = *c10::cuda::CUDACachingAllocator::get();
    changeCurrentAllocator(std::make_shared<RoutingAllocator>(own));
    // libtorch initializes only the current allocator.
    own.init(devices);
    return own;
  }();
  return system;
}

std::unique_ptr<GraphCapture>
withOwnMemory(std::unique_ptr<GraphCapture> capture,
              c10::DeviceAllocator &memory, int device, void *stream) {
  return std::make_unique<CaptureWithMemory>(
      std::move(capture), static_cast<CUDAAllocator &>(memory), device,
      static_cast<cudaStream_t>(stream));
}

} // namespace fcdp
