// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/CudaLibrary.h"

#include <cstddef>
#include <cstdint>

namespace fcdp {

/// The device memory of a rank: one allocation on the current device, initially
/// zero. Not copyable.
class DeviceArena {
public:
  /// Throws std::runtime_error if the memory is not available.
  DeviceArena(std::shared_ptr<const CudaLibrary> cuda, uint64_t bytes);
  ~DeviceArena();
  DeviceArena(const DeviceArena &) = delete;
  DeviceArena &operator=(const DeviceArena &) = delete;

  /// Returns null if the size is 0.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }

private:
  std::shared_ptr<const CudaLibrary> cuda;
  std::byte *address = nullptr;
  uint64_t bytes = 0;
};

} // namespace fcdp
