// SPDX-License-Identifier: Apache-2.0
//
// Compares with vectors that test/e2e/packed_reference.py computes.

#include "core/PackedBlocks.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace fcdp;

namespace {

#include "PackedVectors.inc"

std::vector<float> floats(std::span<const uint32_t> bits) {
  std::vector<float> values(bits.size());
  std::memcpy(values.data(), bits.data(), bits.size_bytes());
  return values;
}

std::vector<uint32_t> patternsOf(const std::vector<float> &values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

std::vector<uint8_t> pack(const PackedLayout &layout,
                          const std::vector<float> &values) {
  std::vector<uint8_t> bytes(size_t(layout.countBytes()));
  for (int64_t block = 0; block < layout.countBlocks(); ++block)
    EXPECT_TRUE(
        packBlock(layout,
                  std::span(values).subspan(size_t(block * layout.blockValues),
                                            size_t(layout.valuesOf(block))),
                  reinterpret_cast<std::byte *>(bytes.data()) +
                      block * layout.blockBytes()));
  return bytes;
}

template <typename T>
std::vector<T> unpack(const PackedLayout &layout,
                      std::span<const uint8_t> bytes, DType dtype) {
  std::vector<T> values(size_t(layout.values));
  auto *packed = reinterpret_cast<const std::byte *>(bytes.data());
  auto *out = reinterpret_cast<std::byte *>(values.data());
  // In two parts, as two threads do.
  const int64_t half = layout.countBlocks() / 2;
  unpackBlocks(layout, packed, 0, half, dtype, out);
  unpackBlocks(layout, packed, half, layout.countBlocks(), dtype, out);
  return values;
}

template <typename T, size_t N>
std::vector<T> vectorOf(const T (&values)[N]) {
  return {values, values + N};
}

/// Rounds to nearest even.
uint16_t toBf16(uint32_t bits) {
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace

TEST(PackedBlocks, Nf4) {
  const auto layout = PackedLayout::ofNf4(std::size(kNf4Input));
  EXPECT_EQ(pack(layout, floats(kNf4Input)), vectorOf(kNf4Packed));
  EXPECT_EQ(patternsOf(unpack<float>(layout, kNf4Packed, DType::F32)),
            vectorOf(kNf4Unpacked));
  std::vector<uint16_t> rounded;
  for (uint32_t bits : kNf4Unpacked)
    rounded.push_back(toBf16(bits));
  EXPECT_EQ(unpack<uint16_t>(layout, kNf4Packed, DType::BF16), rounded);
}

TEST(PackedBlocks, Int8) {
  const auto layout = PackedLayout::ofInt8(3, 10);
  EXPECT_EQ(pack(layout, floats(kInt8Input)), vectorOf(kInt8Packed));
  EXPECT_EQ(patternsOf(unpack<float>(layout, kInt8Packed, DType::F32)),
            vectorOf(kInt8Unpacked));
}

TEST(PackedBlocks, ValuesThatHaveNoCode) {
  std::vector<std::byte> out(64);
  for (float value : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> values = {1, value, 2};
    EXPECT_FALSE(packBlock(PackedLayout::ofNf4(3), values, out.data()));
    EXPECT_FALSE(packBlock(PackedLayout::ofInt8(1, 3), values, out.data()));
  }
  // It is infinite in f16.
  std::vector<float> large = {1, 1e5F};
  EXPECT_TRUE(packBlock(PackedLayout::ofNf4(2), large, out.data()));
  EXPECT_FALSE(packBlock(PackedLayout::ofInt8(1, 2), large, out.data()));
}

TEST(PackedBlocks, OtherTypes) {
  float out = 0;
  EXPECT_THROW(unpackBlocks(PackedLayout::ofInt8(1, 1),
                            reinterpret_cast<const std::byte *>(kInt8Packed), 0,
                            1, DType::F64, reinterpret_cast<std::byte *>(&out)),
               std::runtime_error);
}

TEST(PackedLayout, Sizes) {
  EXPECT_EQ(PackedLayout::ofNf4(64 * 64).countBytes(), 64 * 36);
  EXPECT_EQ(PackedLayout::ofNf4(65).countBytes(), 36 + 8);
  EXPECT_EQ(PackedLayout::ofNf4(65).valuesOf(1), 1);
  EXPECT_EQ(PackedLayout::ofNf4(0).countBytes(), 0);
  EXPECT_EQ(PackedLayout::ofInt8(3, 10).countBytes(), 3 * 16);
  EXPECT_EQ(PackedLayout::ofInt8(3, 0).countBytes(), 0);
}
