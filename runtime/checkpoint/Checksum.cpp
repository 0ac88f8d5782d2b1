// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/Checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace fcdp {

namespace {

static_assert(std::endian::native == std::endian::little);

/// tables[k][b]: what byte b does to the checksum when k bytes follow it. Eight
/// bytes at a time take a fifth of the time that one takes eight times.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables makeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ (value & 1 ? 0xedb88320u : 0);
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < tables.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  return tables;
}

constexpr Tables kTables = makeTables();

} // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t sum = ~0u;
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    word ^= sum;
    sum = 0;
    for (int i = 0; i < 8; ++i)
      sum ^= kTables[7 - i][(word >> 8 * i) & 255];
    bytes = bytes.subspan(8);
  }
  for (std::byte byte : bytes)
    sum = (sum >> 8) ^ kTables[0][(sum ^ uint32_t(byte)) & 255];
  return ~sum;
}

} // namespace fcdp
