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

  /// Null if the size is zero.
  std::byte *base() const { return address; }
  uint64_t size() const { return bytes; }

private:
  std::byte *address = nullptr;
  uint64_t bytes = 0;
};

} // namespace fcdp
