// SPDX-License-Identifier: Apache-2.0

#include "codec/Planes.h"

#include <gtest/gtest.h>
#include <random>

using namespace fcdp;

namespace {

constexpr size_t kPatterns = 65536;

std::vector<uint16_t> allPatterns() {
  std::vector<uint16_t> values(kPatterns);
  for (size_t i = 0; i < kPatterns; ++i)
    values[i] = uint16_t(i);
  return values;
}

struct Planes {
  std::vector<uint8_t> low, high;
};

Planes split(const std::vector<uint16_t> &values,
             const std::vector<uint16_t> &references) {
  Planes planes{std::vector<uint8_t>(values.size()),
                std::vector<uint8_t>(values.size())};
  splitDifferences(values.data(), references.data(), values.size(),
                   planes.low.data(), planes.high.data());
  return planes;
}

template <typename Bits>
void expectExponentsComeBack(const std::vector<Bits> &values) {
  std::vector<uint8_t> rest(values.size() * (sizeof(Bits) - 1));
  std::vector<uint8_t> exponents(values.size());
  splitExponents(values.data(), values.size(), rest.data(), exponents.data());
  std::vector<Bits> back(values.size());
  joinExponents(rest.data(), exponents.data(), values.size(), back.data());
  EXPECT_EQ(back, values);
}

} // namespace

TEST(Planes, EveryPatternComesBackFromAnyReference) {
  std::vector<uint16_t> values = allPatterns();
  std::mt19937 random(1);
  for (uint16_t reference : {0x0000, 0x8000, 0x7fff, 0xffff, 0x7f80, 0xff80,
                             0x3f80, 0xbf80, 0x7fc1, int(random() & 0xffff)}) {
    std::vector<uint16_t> references(kPatterns, reference);
    Planes planes = split(values, references);
    std::vector<uint16_t> back(kPatterns);
    joinDifferences(planes.low.data(), planes.high.data(), references.data(),
                    kPatterns, back.data());
    EXPECT_EQ(back, values) << reference;
    // In the place of the references.
    joinDifferences(planes.low.data(), planes.high.data(), references.data(),
                    kPatterns, references.data());
    EXPECT_EQ(references, values) << reference;
  }
}

TEST(Planes, NeighboursHaveSmallDifferences) {
  // In bf16: 1 and the next number, -1 and the next below, 0 and -0, the
  // smallest number above 0 and below.
  std::vector<uint16_t> values = {0x3f81, 0xbf81, 0x8000, 0x0001, 0x3f80};
  std::vector<uint16_t> references = {0x3f80, 0xbf80, 0x0000, 0x8001, 0x3f80};
  Planes planes = split(values, references);
  EXPECT_EQ(planes.low, (std::vector<uint8_t>{2, 1, 1, 6, 0}));
  EXPECT_EQ(planes.high, std::vector<uint8_t>(5, 0));
}

TEST(Planes, ExponentsAreBytesOfTheirOwn) {
  expectExponentsComeBack(allPatterns());
  std::vector<uint32_t> wide(10000);
  std::mt19937 random(2);
  for (uint32_t &value : wide)
    value = random();
  expectExponentsComeBack(wide);
  // -1.5 in bf16 and in f32.
  uint16_t narrow = 0xbfc0;
  uint8_t rest[3], exponent;
  splitExponents(&narrow, 1, rest, &exponent);
  EXPECT_EQ(exponent, 127);
  EXPECT_EQ(rest[0], 0x81);
  uint32_t single = 0xbfc00000;
  splitExponents(&single, 1, rest, &exponent);
  EXPECT_EQ(exponent, 127);
}
