// SPDX-License-Identifier: Apache-2.0

#include "codec/MessageCodec.h"
#include "codec/Quantizer.h"
#include "core/SumKernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace fcdp;

namespace {

class QuantizeTest
    : public testing::TestWithParam<std::tuple<WireCode, DType>> {
protected:
  WireCode code() const { return std::get<0>(GetParam()); }
  Quantization quantization() const {
    return {code(), std::get<1>(GetParam())};
  }
  std::vector<std::byte> messageFor(size_t elements) const {
    return std::vector<std::byte>(quantizedBytes(formatOf(code()), elements));
  }
  std::vector<std::byte> toType(const std::vector<float> &values) const {
    DType type = quantization().type;
    std::vector<std::byte> bytes(values.size() * byteSize(type));
    convertElements(bytes.data(), type,
                    reinterpret_cast<const std::byte *>(values.data()),
                    DType::F32, values.size());
    return bytes;
  }
  std::vector<float> toFloats(const std::vector<std::byte> &bytes) const {
    DType type = quantization().type;
    std::vector<float> values(bytes.size() / byteSize(type));
    convertElements(reinterpret_cast<std::byte *>(values.data()), DType::F32,
                    bytes.data(), type, values.size());
    return values;
  }
  /// Sends the values, and returns what arrives.
  std::vector<float> send(const std::vector<float> &values,
                          std::vector<float> &residual) const {
    std::vector<std::byte> in = toType(values), out(in.size());
    std::vector<std::byte> message = messageFor(values.size());
    quantize(quantization(), in, residual, message);
    dequantize(quantization(), message, out);
    return toFloats(out);
  }
};

std::vector<float> randomValues(size_t count, float deviation = 1) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(generator);
  return values;
}

float greatest(std::span<const float> values) {
  float most = 0;
  for (float value : values)
    most = std::max(most, std::fabs(value));
  return most;
}

TEST_P(QuantizeTest, ErrorsAreBounded) {
  for (size_t count : {1, 127, 128, 129, 255, 256, 1000}) {
    std::vector<float> values = toFloats(toType(randomValues(count)));
    std::vector<float> residual(count);
    std::vector<float> sent = send(values, residual);
    size_t size = formatOf(code()).blockElements;
    for (size_t begin = 0; begin < count; begin += size) {
      std::span block(values.data() + begin, std::min(size, count - begin));
      // The scale is rounded up in bf16, and bf16 rounds what is decoded.
      double most = greatest(block);
      double half = code() == WireCode::Int8
                        ? most / 127 / 2 * 1.01
                        : most * std::sqrt(128.0) / 7 / 2 * 1.01;
      double rounding =
          quantization().type == DType::F32 ? 1e-6 : most * 1.01 / 256;
      for (size_t i = 0; i < block.size(); ++i)
        EXPECT_LE(std::fabs(sent[begin + i] - block[i]), half + rounding);
    }
    for (size_t i = 0; i < count; ++i)
      EXPECT_EQ(residual[i], values[i] - sent[i]);
  }
}

/// Later messages bring the remainders of earlier ones: the sum of all messages
/// stays within the residual of the sum of the values.
TEST_P(QuantizeTest, TheMeanConverges) {
  constexpr size_t count = 300, messages = 200;
  std::vector<float> values = toFloats(toType(randomValues(count)));
  std::vector<float> residual(count);
  std::vector<double> sums(count);
  for (size_t i = 0; i < messages; ++i) {
    std::vector<float> sent = send(values, residual);
    for (size_t j = 0; j < count; ++j)
      sums[j] += sent[j];
  }
  float bound = code() == WireCode::Int8 ? 0.03f : 2;
  EXPECT_LE(greatest(residual), bound);
  for (size_t j = 0; j < count; ++j)
    EXPECT_NEAR(sums[j] / messages, values[j],
                (bound + 1e-3) / messages + 1e-5);
}

TEST_P(QuantizeTest, SmallNumbersAndZerosHaveFiniteCodes) {
  for (float deviation : {0.0f, 1e-44f, 1e-38f, 1e-30f}) {
    std::vector<float> values = toFloats(toType(randomValues(256, deviation)));
    std::vector<float> residual(256);
    std::vector<float> sent = send(values, residual);
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_TRUE(std::isfinite(sent[i]));
      EXPECT_TRUE(std::isfinite(residual[i]));
      if (deviation == 0.0f)
        EXPECT_EQ(sent[i], 0);
    }
  }
}

/// Its block is lost, and the next message is as if it had not been.
TEST_P(QuantizeTest, NonfiniteValuesArriveAsSuch) {
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    constexpr size_t count = 700;
    std::vector<float> values = toFloats(toType(randomValues(count)));
    std::vector<float> residual(count, 0.25f);
    std::vector<float> poisoned = values;
    poisoned[300] = bad;
    std::vector<float> sent = send(poisoned, residual);
    size_t size = formatOf(code()).blockElements;
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(std::isnan(sent[i]), i / size == 300 / size) << i;
      if (i / size == 300 / size)
        EXPECT_EQ(residual[i], 0);
    }
    for (float value : send(values, residual))
      EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(QuantizeTest, MessagesRepeat) {
  std::vector<std::byte> in = toType(randomValues(1000));
  std::vector<std::byte> one = messageFor(1000), two = one;
  std::fill(two.begin(), two.end(), std::byte{0xff});
  std::vector<float> first(1000), second(1000);
  quantize(quantization(), in, first, one);
  quantize(quantization(), in, second, two);
  EXPECT_EQ(one, two);
  EXPECT_EQ(first, second);
}

TEST_P(QuantizeTest, DamagedMessagesAreRefused) {
  constexpr size_t count = 300;
  std::vector<std::byte> in = toType(randomValues(count));
  std::vector<std::byte> message = messageFor(count);
  std::vector<float> residual(count);
  quantize(quantization(), in, residual, message);
  size_t used = 64;
  for (size_t at : {size_t(0), size_t(4), size_t(5), size_t(8), size_t(16),
                    used, used + 100, message.size() - 1}) {
    std::vector<std::byte> damaged = message;
    damaged[at] ^= std::byte{1};
    std::vector<std::byte> out(in.size());
    EXPECT_THROW(dequantize(quantization(), damaged, out), CodeError) << at;
    EXPECT_EQ(out, std::vector<std::byte>(in.size())) << at;
  }
  std::vector<std::byte> out(in.size());
  EXPECT_THROW(dequantize(quantization(),
                          std::span(message).first(message.size() - 64), out),
               CodeError);
  WireCode other = code() == WireCode::Int8 ? WireCode::Int4 : WireCode::Int8;
  EXPECT_THROW(dequantize({other, quantization().type}, message, out),
               CodeError);
}

TEST_P(QuantizeTest, SizesAreChecked) {
  std::vector<std::byte> in = toType(randomValues(8));
  std::vector<std::byte> message = messageFor(8);
  std::vector<float> few(7);
  EXPECT_THROW(quantize(quantization(), in, few, message), std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(
    All, QuantizeTest,
    testing::Combine(testing::Values(WireCode::Int8, WireCode::Int4),
                     testing::Values(DType::F32, DType::BF16, DType::F16)));

TEST(QuantizedSizeTest, IsExact) {
  EXPECT_EQ(quantizedBytes(kInt8Format, 0), 0u);
  EXPECT_EQ(quantizedBytes(kInt8Format, 1), 384u);    // 64 + 258
  EXPECT_EQ(quantizedBytes(kInt8Format, 257), 640u);  // 64 + 2 * 258
  EXPECT_EQ(quantizedBytes(kInt4Format, 1), 192u);    // 64 + 66
  EXPECT_EQ(quantizedBytes(kInt4Format, 1280), 768u); // 64 + 10 * 66
}

} // namespace
