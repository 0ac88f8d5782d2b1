// SPDX-License-Identifier: Apache-2.0
//
// Moments in 8 bits beside plain loops.
#include "optimizers/BlockStates.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace fcdp;

namespace {

std::vector<float> numbersOf(const at::Tensor &tensor) {
  const float *data = tensor.const_data_ptr<float>();
  return {data, data + tensor.numel()};
}

/// The map as bitsandbytes describes it: 2^i numbers below 10^(i - 6), each in
/// the middle of its part of [0.1, 1], of both signs or twice as many.
std::vector<double> expectedMap(bool isSigned) {
  std::vector<double> map = {0, 1};
  for (int i = 0; i < 7; ++i) {
    int numbers = (isSigned ? 1 : 2) << i;
    for (int k = 0; k < numbers; ++k) {
      double middle = 0.1 + 0.9 * (k + 0.5) / numbers;
      map.push_back(middle * std::pow(10, i - 6));
      if (isSigned)
        map.push_back(-map.back());
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

class BlockStatesTest : public ::testing::TestWithParam<bool> {
protected:
  struct Encoded {
    at::Tensor codes, scales;
  };
  Encoded encode(const at::Tensor &values) {
    int64_t elements = values.numel();
    Encoded result{at::empty({elements}, at::kByte),
                   at::empty({elements / kStateBlock})};
    at::Tensor copy = values.clone(), scratch = at::empty({elements});
    codec.encode(result.codes, result.scales, copy,
                 at::empty({elements}, at::kInt), scratch);
    return result;
  }
  at::Tensor decode(const Encoded &encoded) {
    at::Tensor out = at::empty({encoded.codes.numel()});
    codec.decode(out, encoded.codes, encoded.scales,
                 at::empty({encoded.codes.numel()}, at::kInt));
    return out;
  }
  /// Returns values of many magnitudes. For a map without signs none is
  /// negative.
  at::Tensor values(int64_t elements) const {
    at::manual_seed(5);
    at::Tensor random =
        at::randn({elements}).mul(at::randn({elements}).mul(4).exp());
    return GetParam() ? random : random.abs();
  }

  BlockCodec codec{GetParam(), at::kCPU};
};

TEST_P(BlockStatesTest, TheMapIsThatOfThePaper) {
  std::vector<float> map = numbersOf(dynamicMap(GetParam()));
  std::vector<double> expected = expectedMap(GetParam());
  ASSERT_EQ(map.size(), 256u);
  ASSERT_EQ(expected.size(), 256u);
  for (size_t i = 0; i < map.size(); ++i)
    EXPECT_NEAR(map[i], expected[i], 1e-6 * std::abs(expected[i])) << i;
}

TEST_P(BlockStatesTest, AValueBecomesTheNearestNumber) {
  at::Tensor given = values(1024);
  given.narrow(0, 512, 256).zero_();
  Encoded encoded = encode(given);
  std::vector<float> in = numbersOf(given), scales = numbersOf(encoded.scales);
  std::vector<float> out = numbersOf(decode(encoded));
  std::vector<float> map = numbersOf(dynamicMap(GetParam()));
  const uint8_t *codes = encoded.codes.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < 1024; ++i) {
    float greatest = 1e-12f;
    for (int64_t k = i / 256 * 256; k < i / 256 * 256 + 256; ++k)
      greatest = std::max(greatest, std::abs(in[k]));
    EXPECT_EQ(scales[i / 256], greatest);
    float scaled = in[i] / greatest, least = 2;
    for (float number : map)
      least = std::min(least, std::abs(scaled - number));
    EXPECT_NEAR(std::abs(scaled - map[codes[i]]), least, 1e-7f) << i;
    EXPECT_EQ(out[i], map[codes[i]] * greatest);
  }
}

TEST_P(BlockStatesTest, WhatIsDecodedStays) {
  at::Tensor given = values(2048);
  // The map has 1 and no -1.
  at::Tensor blocks = given.view({-1, kStateBlock});
  blocks.select(1, 0).copy_(blocks.abs().amax(1));
  Encoded encoded = encode(given);
  Encoded again = encode(decode(encoded));
  EXPECT_TRUE(at::equal(again.codes, encoded.codes));
  EXPECT_TRUE(at::equal(again.scales, encoded.scales));
}

/// A rank that owns other blocks has the same bits of each.
TEST_P(BlockStatesTest, BlocksDoNotDependOnTheirPlace) {
  at::Tensor given = values(4096);
  Encoded whole = encode(given);
  at::Tensor decoded = decode(whole);
  for (int64_t begin = 0, blocks = 1; begin < 4096; ++blocks) {
    int64_t size = std::min(256 * blocks, 4096 - begin);
    Encoded part = encode(given.narrow(0, begin, size));
    EXPECT_TRUE(at::equal(part.codes, whole.codes.narrow(0, begin, size)));
    EXPECT_TRUE(at::equal(part.scales,
                          whole.scales.narrow(0, begin / 256, size / 256)));
    EXPECT_TRUE(at::equal(decode(part), decoded.narrow(0, begin, size)));
    begin += size;
  }
}

TEST_P(BlockStatesTest, NewStatesAreZero) {
  Encoded fresh{at::zeros({256}, at::kByte), at::zeros({1})};
  EXPECT_TRUE(at::equal(decode(fresh), at::zeros({256})));
}

INSTANTIATE_TEST_SUITE_P(Signs, BlockStatesTest, ::testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "Signed" : "Unsigned";
                         });

} // namespace
