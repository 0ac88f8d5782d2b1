// SPDX-License-Identifier: Apache-2.0
//
// The current device and stream of each thread.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime_api.h>
#include <map>

namespace fcdp::emulated {
namespace {

thread_local std::map<c10::DeviceIndex, c10::Stream> streams;

class Guard final : public c10::impl::DeviceGuardImplInterface {
public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {c10::kCUDA, c10::DeviceIndex(fake::deviceOfThread())};
  }
  void setDevice(c10::Device device) const override {
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0)
      (void)cudaSetDevice(device.index());
  }
  c10::Stream getStream(c10::Device device) const override {
    auto index = device.has_index() ? device.index() : getDevice().index();
    auto found = streams.find(index);
    return found == streams.end()
               ? c10::Stream(c10::Stream::DEFAULT, {c10::kCUDA, index})
               : found->second;
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::Stream before = getStream(stream.device());
    streams.insert_or_assign(stream.device_index(), stream);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    (void)cudaGetDeviceCount(&count);
    return c10::DeviceIndex(count);
  }
  void synchronizeDevice(c10::DeviceIndex) const override {
    emulated::synchronizeDevice();
  }
};

// libtorch never deletes a guard.
c10::impl::DeviceGuardImplRegistrar registrar(c10::kCUDA, new Guard);

} // namespace

cudaStream_t currentStream() {
  const auto *guard = c10::impl::getDeviceGuardImpl(c10::kCUDA);
  // A stream that libtorch has not made is named by its handle.
  return reinterpret_cast<cudaStream_t>(
      guard->getStream(guard->getDevice()).id());
}

} // namespace fcdp::emulated
