// SPDX-License-Identifier: Apache-2.0

#include "codec/ClassOrder.h"

#include "codec/EntropyCoder.h"
#include "codec/MessageCodec.h"
#include "codec/Planes.h"
#include "core/SumKernels.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <vector>

using namespace fcdp;

namespace {

constexpr ExponentBits kBF16{7, 0xff};
using Octets = std::vector<uint8_t>;

/// Values of a layer, and the same after an update of about `rate`.
struct Weights {
  std::vector<uint16_t> before, after;
};

Weights makeWeights(DType type, size_t count, float rate) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Weights weights{std::vector<uint16_t>(count), std::vector<uint16_t>(count)};
  auto store = [&](uint16_t &to, float value) {
    convertElements(reinterpret_cast<std::byte *>(&to), type,
                    reinterpret_cast<const std::byte *>(&value), DType::F32, 1);
  };
  for (size_t i = 0; i < count; ++i) {
    float value = 0.02f * normal(random);
    store(weights.before[i], value);
    store(weights.after[i], value + rate * normal(random));
  }
  return weights;
}

} // namespace

TEST(ClassOrder, BytesComeBack) {
  for (size_t count : {0, 1, 3, 4, 7, 63, 64, 65, 1001, 65536}) {
    Weights weights = makeWeights(DType::BF16, count, 1e-4f);
    uint8_t top = ClassOrder::chooseTop(weights.before.data(), count, kBF16);
    ClassOrder order, narrow(/*mayBeWide=*/false);
    Octets classes(count), in(count), sorted(count), back(count);
    for (size_t i = 0; i < count; ++i)
      in[i] = uint8_t(i * 7 + i / 256);
    order.classify(weights.before.data(), count, kBF16, top, classes.data());
    order.sort(in.data(), sorted.data());
    order.restore(sorted.data(), back.data());
    EXPECT_EQ(back, in);
    Octets other(count), again(count);
    narrow.classify(weights.before.data(), count, kBF16, top, classes.data());
    narrow.sort(in.data(), other.data());
    EXPECT_EQ(other, sorted);
    narrow.restore(other.data(), again.data());
    EXPECT_EQ(again, in);
    // The classes themselves are in order.
    order.sort(classes.data(), sorted.data());
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
    size_t sum = 0;
    for (size_t which = 0; which < kNumClasses; ++which)
      sum += order.size(which);
    EXPECT_EQ(sum, count);
  }
}

TEST(ClassOrder, ClassesAreExponentsFromTheTop) {
  // 4, 2, 1, 0.5 and 0, and one above the top.
  std::vector<uint16_t> values = {0x4080, 0x4000, 0x3f80, 0xbf00, 0, 0x7f80};
  Octets classes(values.size());
  ClassOrder().classify(values.data(), values.size(), kBF16, 0x81,
                        classes.data());
  EXPECT_EQ(classes, (Octets{0, 1, 2, 3, 7, 0}));
}

TEST(ClassOrder, DifferencesTakeFewerBytes) {
  for (DType type : {DType::BF16, DType::F16}) {
    constexpr size_t count = 65536;
    // An eighth in f16, which has three bits more.
    Weights weights =
        makeWeights(type, count, type == DType::F16 ? 1.25e-5f : 1e-4f);
    std::vector<std::byte> low(count), high(count), plain(2 * count),
        message(codedCapacity(2 * count));
    splitDifferences(weights.after.data(), weights.before.data(), count,
                     reinterpret_cast<uint8_t *>(low.data()),
                     reinterpret_cast<uint8_t *>(high.data()));
    EntropyCoder coder;
    size_t alike = coder.encode(low, plain);
    alike += coder.encode(high, plain);
    MessageCodec codec;
    size_t size = codec.encode(
        {WireCode::Delta, type, 1}, std::as_bytes(std::span(weights.after)),
        reinterpret_cast<const std::byte *>(weights.before.data()), message);
    EXPECT_LT(double(size), 0.95 * double(alike)) << name(type);
  }
}
