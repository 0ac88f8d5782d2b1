// SPDX-License-Identifier: Apache-2.0
//
// Codes bytes near their entropy, by zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace fcdp {

/// Codes and decodes blocks of at most `kMostBytes` bytes. The constructor
/// allocates all memory. One thread at a time may use it.
class EntropyCoder {
public:
  static constexpr size_t kMostBytes = 64 * 1024;

  /// Throws std::bad_alloc.
  EntropyCoder();
  ~EntropyCoder();

  /// Codes `bytes` into `out` and returns the code's bytes, or 0 if it does not
  /// fit.
  size_t encode(std::span<const std::byte> bytes, std::span<std::byte> out);
  /// Decodes the output of `encode`. Returns false if `code` is not the code of
  /// exactly as many bytes as `bytes` has.
  bool decode(std::span<const std::byte> code, std::span<std::byte> bytes);

private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts;
};

/// Returns the number of bytes that are zero.
size_t countZeros(std::span<const std::byte> bytes);

} // namespace fcdp
