// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace fcdp {

/// The device memory of a rank: one region, page-aligned, zero when made.
/// Not copyable; the memory itself is plain.
class Arena {
public:
  /// Throws std::runtime_error if the memory cannot be had.
  explicit Arena(uint64_t bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Makes it as long as `bytes`, if it is shorter. Throws std::runtime_error
  /// if the memory, or the addresses behind it, cannot be had.
  void grow(uint64_t bytes);

  /// The same for good.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }

private:
  std::byte *address = nullptr;
  /// What can be used, and how many addresses there are.
  uint64_t bytes = 0, reserved = 0;
};

} // namespace fcdp
