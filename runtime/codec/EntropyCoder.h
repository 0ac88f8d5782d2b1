// SPDX-License-Identifier: Apache-2.0
//
// Codes bytes near their entropy, by zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace fcdp {

/// Codes and decodes blocks of at most `kMostBytes` bytes. All memory is taken
/// by the constructor. One thread at a time may use it.
class EntropyCoder {
public:
  static constexpr size_t kMostBytes = 64 * 1024;

  /// Throws std::bad_alloc.
  EntropyCoder();
  ~EntropyCoder();

  /// Codes `bytes` into `out` and returns the bytes that the code takes, or 0
  /// if there is no room for it.
  size_t encode(std::span<const std::byte> bytes, std::span<std::byte> out);
  /// Decodes what `encode` gave. Returns false if `code` is not the code of as
  /// many bytes as `bytes` has.
  bool decode(std::span<const std::byte> code, std::span<std::byte> bytes);

private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts;
};

/// Returns how many of the bytes are zero.
size_t countZeros(std::span<const std::byte> bytes);

} // namespace fcdp
