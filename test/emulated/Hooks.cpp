// SPDX-License-Identifier: Apache-2.0
//
// The answers to libtorch about CUDA: devices, pinned memory, random numbers.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <cuda_runtime_api.h>

namespace fcdp::emulated {
namespace {

/// The CPU's default generator, from which the CPU's kernels draw when a stream
/// reaches them.
class EmulatedGenerator final : public c10::GeneratorImpl {
public:
  explicit EmulatedGenerator(c10::DeviceIndex device)
      : GeneratorImpl({c10::kCUDA, device},
                      c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}
  void set_current_seed(uint64_t seed) override {
    generator().set_current_seed(seed);
  }
  uint64_t current_seed() const override { return generator().current_seed(); }
  uint64_t seed() override { return generator().seed(); }
  void set_offset(uint64_t offset) override { generator().set_offset(offset); }
  uint64_t get_offset() const override { return generator().get_offset(); }
  void set_state(const c10::TensorImpl &state) override {
    generator().set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return generator().get_state();
  }

private:
  GeneratorImpl *clone_impl() const override {
    TORCH_CHECK(false, "copies of a generator are not emulated");
  }
  static at::CPUGeneratorImpl &generator() {
    synchronizeDevice();
    return *at::detail::getDefaultCPUGenerator().get<at::CPUGeneratorImpl>();
  }
};

/// Never gives memory back to the system, as libtorch's does.
class PinnedAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    void *data = nullptr;
    if (bytes)
      TORCH_CHECK(cudaHostAlloc(&data, bytes, cudaHostAllocDefault) ==
                      cudaSuccess,
                  "cudaHostAlloc failed");
    return {data, nullptr, nullptr, c10::Device(c10::kCPU)};
  }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

class Hooks final : public at::CUDAHooksInterface {
public:
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {
    c10::cuda::CUDACachingAllocator::get()->init(getNumGPUs());
  }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  int getNumGPUs() const override {
    int count = 0;
    (void)cudaGetDeviceCount(&count);
    return count;
  }
  c10::DeviceIndex deviceCount() const override {
    return c10::DeviceIndex(getNumGPUs());
  }
  c10::DeviceIndex current_device() const override {
    return c10::DeviceIndex(fake::deviceOfThread());
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  const at::Generator &
  getDefaultGenerator(c10::DeviceIndex device) const override {
    static const std::vector<at::Generator> all = [this] {
      std::vector<at::Generator> made;
      for (int i = 0; i < getNumGPUs(); ++i)
        made.push_back(
            at::make_generator<EmulatedGenerator>(c10::DeviceIndex(i)));
      return made;
    }();
    return all.at(size_t(device < 0 ? current_device() : device));
  }
  bool isPinnedPtr(const void *data) const override {
    return fake::isPinned(data);
  }
  c10::Allocator *getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
  c10::Device getDeviceFromPtr(void *) const override {
    return {c10::kCUDA, current_device()};
  }
  void deviceSynchronize(c10::DeviceIndex) const override {
    synchronizeDevice();
  }
};

} // namespace
} // namespace fcdp::emulated

namespace at {
using CUDAHooks = fcdp::emulated::Hooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
} // namespace at
