// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/CudaLibrary.h"

#include <cstddef>
#include <cstdint>

namespace fcdp {

/// The device memory of a rank: one allocation, zero when made, on the device
/// that is current. Not copyable.
class DeviceArena {
public:
  /// Throws std::runtime_error if the memory cannot be had.
  DeviceArena(std::shared_ptr<const CudaLibrary> cuda, uint64_t bytes);
  ~DeviceArena();
  DeviceArena(const DeviceArena &) = delete;
  DeviceArena &operator=(const DeviceArena &) = delete;

  /// Null if the size is zero.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }

private:
  std::shared_ptr<const CudaLibrary> cuda;
  std::byte *address = nullptr;
  uint64_t bytes = 0;
};

} // namespace fcdp
