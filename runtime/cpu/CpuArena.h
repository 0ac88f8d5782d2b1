// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace fcdp {

/// The device memory of a rank: one page-aligned region, initially zero. It is
/// not copyable, and access to the memory is not synchronized.
class CpuArena {
public:
  /// Throws std::runtime_error if the memory is not available.
  explicit CpuArena(uint64_t bytes);
  ~CpuArena();
  CpuArena(const CpuArena &) = delete;
  CpuArena &operator=(const CpuArena &) = delete;

  /// Grows the arena to `bytes` if it is smaller. Throws std::runtime_error if
  /// the memory, or the address space after it, is not available.
  void grow(uint64_t bytes);

  /// Returns the address, which never changes.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }
  /// Returns whether `at` is in the arena, or in the addresses that it may grow
  /// to. Callable from any thread.
  bool contains(const void *at) const {
    auto *byte = static_cast<const std::byte *>(at);
    return address && byte >= address && byte < address + reserved;
  }

private:
  std::byte *address = nullptr;
  /// Bytes that can be used, and bytes of reserved address space.
  uint64_t bytes = 0, reserved = 0;
};

} // namespace fcdp
