// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace fcdp {

/// A checksum of 64 bits, as fast as memory, that detects accidental
/// differences. Two contents of equal length that differ in exactly one word of
/// 8 bytes never have the same checksum. Not thread-safe.
class Checksum {
public:
  void add(std::span<const std::byte> bytes) {
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t))
      addWord(wordAt(bytes.data() + at, sizeof(uint64_t)));
    if (at < bytes.size())
      addWord(wordAt(bytes.data() + at, bytes.size() - at));
    addWord(bytes.size());
  }
  uint64_t value() const { return state; }

private:
  static uint64_t wordAt(const std::byte *bytes, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    return word;
  }
  /// Adds a word. The step is invertible, so a difference is never lost.
  void addWord(uint64_t word) {
    constexpr uint64_t golden =
        0x9E3779B97F4A7C15; // 2^64 over the golden ratio
    state = (state ^ word) * golden;
    state ^= state >> 32;
  }

  uint64_t state = 0;
};

} // namespace fcdp
