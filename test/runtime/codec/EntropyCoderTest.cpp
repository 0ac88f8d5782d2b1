// SPDX-License-Identifier: Apache-2.0

#include "codec/EntropyCoder.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace fcdp;

namespace {

using Bytes = std::vector<std::byte>;

/// Bytes of a geometric distribution: 0 with probability `zero`, and so on.
Bytes makeBytes(size_t count, double zero, uint32_t seed) {
  std::mt19937 random(seed);
  std::geometric_distribution<int> number(zero);
  Bytes bytes(count);
  for (std::byte &byte : bytes)
    byte = std::byte(std::min(number(random), 255));
  return bytes;
}

/// In bits.
double entropyOf(const Bytes &bytes) {
  std::vector<double> counts(256);
  for (std::byte byte : bytes)
    ++counts[size_t(byte)];
  double entropy = 0, total = double(bytes.size());
  for (double count : counts)
    entropy -= count ? count / total * std::log2(count / total) : 0;
  return entropy;
}

} // namespace

TEST(EntropyCoder, GivesBytesBackAtNearTheirEntropy) {
  EntropyCoder coder;
  Bytes code(2 * EntropyCoder::kMostBytes);
  for (double zero : {0.999, 0.97, 0.9, 0.5, 0.2, 0.05}) {
    Bytes bytes = makeBytes(EntropyCoder::kMostBytes, zero, 3);
    size_t size = coder.encode(bytes, code);
    ASSERT_GT(size, 0u);
    double bits = 8.0 * double(size) / double(bytes.size());
    // Huffman's code has at least a bit for each symbol.
    EXPECT_LE(bits, std::max(entropyOf(bytes) + 0.1, 1.15)) << zero;
    Bytes back(bytes.size());
    ASSERT_TRUE(coder.decode(std::span(code).first(size), back));
    EXPECT_EQ(back, bytes);
  }
}

TEST(EntropyCoder, TakesBlocksOfAnySize) {
  EntropyCoder coder;
  Bytes code(1000);
  for (size_t count : {1, 2, 63, 500}) {
    Bytes bytes = makeBytes(count, 0.8, uint32_t(count)), back(count);
    size_t size = coder.encode(bytes, code);
    ASSERT_GT(size, 0u);
    ASSERT_TRUE(coder.decode(std::span(code).first(size), back));
    EXPECT_EQ(back, bytes);
  }
}

TEST(EntropyCoder, SaysThatThereIsNoRoom) {
  EntropyCoder coder;
  Bytes bytes = makeBytes(1000, 0.01, 4), code(100);
  EXPECT_EQ(coder.encode(bytes, code), 0u);
}

TEST(EntropyCoder, RefusesWhatIsNoCode) {
  EntropyCoder coder;
  Bytes bytes = makeBytes(1000, 0.5, 5), code(2000), back(1000);
  size_t size = coder.encode(bytes, code);
  EXPECT_FALSE(coder.decode(std::span(code).first(size - 1), back));
  EXPECT_FALSE(coder.decode(std::span(code).first(0), back));
  EXPECT_FALSE(
      coder.decode(std::span(code).first(size), std::span(back).first(999)));
  code[0] ^= std::byte(0xff);
  EXPECT_FALSE(coder.decode(std::span(code).first(size), back));
}

TEST(EntropyCoder, CountsZeros) {
  EXPECT_EQ(countZeros({}), 0u);
  for (size_t count : {1, 63, 64, 65, 16320, 16321, 50000}) {
    Bytes bytes = makeBytes(count, 0.9, uint32_t(count));
    EXPECT_EQ(countZeros(bytes),
              size_t(std::count(bytes.begin(), bytes.end(), std::byte{})));
    EXPECT_EQ(countZeros(Bytes(count)), count);
  }
  EXPECT_EQ(countZeros(Bytes{std::byte(0), std::byte(1), std::byte(0)}), 2u);
}
