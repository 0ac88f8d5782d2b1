// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/CudaLibrary.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fcdp {

/// Functions that allocate and release the memory of an arena.
struct DeviceMemorySource {
  /// Returns memory of the current device. Throws std::runtime_error that names
  /// the call.
  std::function<void *(uint64_t bytes)> allocate;
  /// Releases the memory. Does not throw.
  std::function<void(void *memory)> release;
};

/// Returns the source that uses cudaMalloc.
DeviceMemorySource cudaMemory(std::shared_ptr<const CudaLibrary> cuda);

/// The device memory of a rank: one allocation on the current device, initially
/// zero. Not copyable.
class DeviceArena {
public:
  /// Throws Failure of kind OutOfMemory if the memory is not available.
  DeviceArena(std::shared_ptr<const CudaLibrary> cuda, uint64_t bytes,
              DeviceMemorySource source);
  ~DeviceArena();
  DeviceArena(const DeviceArena &) = delete;
  DeviceArena &operator=(const DeviceArena &) = delete;

  /// Zeroes the memory and waits until that is done. No other work may use it
  /// in the meantime.
  void zero();
  /// Returns null if the size is 0.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }

private:
  std::shared_ptr<const CudaLibrary> cuda;
  DeviceMemorySource source;
  std::byte *address = nullptr;
  uint64_t bytes = 0;
};

} // namespace fcdp
