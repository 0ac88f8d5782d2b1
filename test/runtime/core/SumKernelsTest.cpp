// SPDX-License-Identifier: Apache-2.0
//
// Compares with sums in double and with the compiler's own conversions.

#include "core/SumKernels.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace fcdp;

namespace {

template <typename To, typename From>
To bits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

template <typename In, typename Out>
std::vector<Out> sum(const std::vector<std::vector<In>> &chunks, DType inType,
                     DType outType) {
  std::vector<const std::byte *> sources;
  for (const auto &chunk : chunks)
    sources.push_back(reinterpret_cast<const std::byte *>(chunk.data()));
  std::vector<Out> out(chunks[0].size());
  sumChunks(reinterpret_cast<std::byte *>(out.data()), outType, sources, inType,
            out.size());
  return out;
}

template <typename In, typename Out>
Out convert(In value, DType inType, DType outType) {
  return sum<In, Out>({{value}}, inType, outType)[0];
}

float fromBF16(uint16_t value) { return bits<float>(uint32_t(value) << 16); }
float fromF16(uint16_t value) { return float(bits<_Float16>(value)); }

/// Rounds to nearest even by trying the two neighbours.
uint16_t toBF16(float value) {
  if (std::isnan(value))
    return 0x7fc0;
  uint32_t raw = bits<uint32_t>(value), low = raw & 0xffff;
  uint16_t down = raw >> 16;
  bool up = low > 0x8000 || (low == 0x8000 && (down & 1));
  return down + up;
}

constexpr size_t count = 3001; // several blocks and a rest

} // namespace

TEST(SumKernels, AllF16ValuesSurvive) {
  for (uint32_t i = 0; i < 65536; ++i) {
    float wide = convert<uint16_t, float>(i, DType::F16, DType::F32);
    if (std::isnan(fromF16(i))) {
      ASSERT_TRUE(std::isnan(wide)) << i;
      uint16_t back = convert<float, uint16_t>(wide, DType::F32, DType::F16);
      ASSERT_TRUE(std::isnan(fromF16(back))) << i;
      continue;
    }
    ASSERT_EQ(bits<uint32_t>(wide), bits<uint32_t>(fromF16(i))) << i;
    ASSERT_EQ((convert<float, uint16_t>(wide, DType::F32, DType::F16)), i);
  }
}

TEST(SumKernels, AllBF16ValuesSurvive) {
  for (uint32_t i = 0; i < 65536; ++i) {
    float wide = convert<uint16_t, float>(i, DType::BF16, DType::F32);
    uint16_t back = convert<float, uint16_t>(wide, DType::F32, DType::BF16);
    if (std::isnan(fromBF16(i)))
      ASSERT_TRUE(std::isnan(wide) && std::isnan(fromBF16(back))) << i;
    else
      ASSERT_EQ(back, i);
  }
}

TEST(SumKernels, RoundsToNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    float value = bits<float>(uint32_t(random()));
    if (i % 3 == 0) // near f16's range, with ties
      value = bits<float>(uint32_t(bits<uint32_t>(fromF16(random() & 0x7bff)) +
                                   (random() % 5 - 2) * 0x800));
    if (std::isnan(value))
      continue;
    ASSERT_EQ((convert<float, uint16_t>(value, DType::F32, DType::F16)),
              bits<uint16_t>(_Float16(value)))
        << value;
    ASSERT_EQ((convert<float, uint16_t>(value, DType::F32, DType::BF16)),
              toBF16(value))
        << value;
  }
}

TEST(SumKernels, F32IsSummedInOrder) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (size_t ranks : {1, 2, 3, 4, 7}) {
    std::vector<std::vector<float>> chunks(ranks, std::vector<float>(count));
    for (auto &chunk : chunks)
      for (float &value : chunk)
        value = normal(random);
    auto out = sum<float, float>(chunks, DType::F32, DType::F32);
    for (size_t i = 0; i < count; ++i) {
      float inOrder = chunks[0][i];
      double exact = chunks[0][i], magnitude = std::fabs(chunks[0][i]);
      for (size_t r = 1; r < ranks; ++r) {
        inOrder += chunks[r][i];
        exact += chunks[r][i];
        magnitude += std::fabs(chunks[r][i]);
      }
      ASSERT_EQ(bits<uint32_t>(out[i]), bits<uint32_t>(inOrder));
      ASSERT_NEAR(out[i], exact, ranks * 6e-8 * magnitude);
    }
  }
}

TEST(SumKernels, F64IsSummedInF64) {
  auto out = sum<double, double>({{1e16}, {1.0}, {1.0}, {-1e16}}, DType::F64,
                                 DType::F64);
  EXPECT_EQ(out[0], 1e16 + 1.0 + 1.0 - 1e16);
  auto precise = sum<double, double>({{1.0}, {1e-12}}, DType::F64, DType::F64);
  EXPECT_EQ(precise[0], 1.0 + 1e-12);
}

// In bf16 itself, 256 + 1 would stay 256 at every step.
TEST(SumKernels, HalvesAreSummedInF32AndRoundedOnce) {
  std::vector<std::vector<uint16_t>> chunks(9, {toBF16(1)});
  chunks[0] = {toBF16(256)};
  auto out = sum<uint16_t, uint16_t>(chunks, DType::BF16, DType::BF16);
  EXPECT_EQ(fromBF16(out[0]), 264);

  std::mt19937 random(3);
  std::vector<std::vector<uint16_t>> many(4, std::vector<uint16_t>(count));
  for (auto &chunk : many)
    for (uint16_t &value : chunk)
      value = bits<uint16_t>(_Float16(float(random() % 2001) / 1000 - 1));
  auto halves = sum<uint16_t, uint16_t>(many, DType::F16, DType::F16);
  auto wide = sum<uint16_t, float>(many, DType::F16, DType::F32);
  for (size_t i = 0; i < count; ++i) {
    float expected = 0;
    double exact = 0;
    for (auto &chunk : many) {
      expected = (&chunk == &many[0]) ? fromF16(chunk[i])
                                      : expected + fromF16(chunk[i]);
      exact += fromF16(chunk[i]);
    }
    ASSERT_EQ(wide[i], expected);
    ASSERT_NEAR(wide[i], exact, 1e-6);
    ASSERT_EQ(halves[i], bits<uint16_t>(_Float16(expected)));
  }
}

TEST(SumKernels, MaySumIntoASource) {
  std::vector<float> a{1, 2, 3}, b{10, 20, 30};
  const std::byte *sources[] = {reinterpret_cast<std::byte *>(a.data()),
                                reinterpret_cast<std::byte *>(b.data())};
  sumChunks(reinterpret_cast<std::byte *>(b.data()), DType::F32, sources,
            DType::F32, 3);
  EXPECT_EQ(b, (std::vector<float>{11, 22, 33}));
}

TEST(SumKernels, RefusesWhatCannotBeSummed) {
  uint8_t value = 1;
  const std::byte *sources[] = {reinterpret_cast<std::byte *>(&value)};
  std::byte out[8];
  EXPECT_THROW(sumChunks(out, DType::F32, sources, DType::I8, 1),
               std::runtime_error);
  EXPECT_THROW(sumChunks(out, DType::Bool, sources, DType::F16, 0),
               std::runtime_error);
  EXPECT_FALSE(isSummable(DType::I32));
  EXPECT_TRUE(isSummable(DType::BF16));
}

// The result must be that of two consecutive sums.
TEST(SumKernels, GroupsAreSummedAndRoundedFirst) {
  std::mt19937 random(11);
  for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    const size_t bytes = count * byteSize(type);
    std::vector<std::vector<std::byte>> chunks(6);
    std::vector<const std::byte *> sources;
    for (auto &chunk : chunks) {
      std::vector<double> values(count);
      for (double &value : values)
        value = std::exp2(int(random() % 20) - 10) * (random() % 1000 - 500.0);
      const auto *wide = reinterpret_cast<const std::byte *>(values.data());
      chunk.resize(bytes);
      sumChunks(chunk.data(), type, {&wide, 1}, DType::F64, count);
      sources.push_back(chunk.data());
    }
    for (size_t groupSize : {1, 2, 3, 6}) {
      std::vector<std::vector<std::byte>> partial;
      std::vector<const std::byte *> partials;
      for (size_t at = 0; at < sources.size(); at += groupSize) {
        partial.emplace_back(bytes);
        sumChunks(partial.back().data(), type,
                  std::span(sources).subspan(at, groupSize), type, count);
      }
      for (const auto &chunk : partial)
        partials.push_back(chunk.data());
      std::vector<float> want(count), got(count);
      if (groupSize == sources.size()) // rounded once
        partials = sources;
      sumChunks(reinterpret_cast<std::byte *>(want.data()), DType::F32,
                partials, type, count);
      sumGroups(reinterpret_cast<std::byte *>(got.data()), DType::F32, sources,
                groupSize, type, count);
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(bits<uint32_t>(got[i]), bits<uint32_t>(want[i]))
            << name(type) << " in groups of " << groupSize << " at " << i;
    }
  }
  const std::byte *none[3] = {};
  EXPECT_THROW(sumGroups(nullptr, DType::F32, none, 2, DType::F32, 0),
               std::runtime_error);
}
