// SPDX-License-Identifier: Apache-2.0

#include "codec/Quantizer.h"

#include "codec/MessageCodec.h"
#include "core/SumKernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fcdp {
namespace {

constexpr uint32_t kQuantizedMagic = 0x51444346; // "FCDQ"

struct QuantizedHeader {
  uint32_t magic;
  uint8_t code, type;
  uint16_t unused;
  uint64_t elements;
  /// XXH3 of all bytes after the header.
  uint64_t checksum;
};
static_assert(sizeof(QuantizedHeader) <= kMessageHeaderBytes);

constexpr int32_t kInfinity = 0x7f800000;
constexpr uint16_t kQuietNaN = 0x7fc0;
/// Scales below this one are 0, so that no number is a denormal, which some
/// processors may flush.
constexpr float kLeastScale = 0x1p-100f;

// The loops have constant bounds and no branches, so that compilers vectorize
// them.

/// Returns the bits of the greatest magnitude; at least kInfinity if a value is
/// not finite.
template <size_t Size>
int32_t greatestMagnitude(const float *values) {
  int32_t greatest = 0;
  for (size_t i = 0; i < Size; ++i) {
    int32_t bits = std::bit_cast<int32_t>(values[i]) & 0x7fffffff;
    greatest = bits > greatest ? bits : greatest;
  }
  return greatest;
}

float scaleOf(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// Returns the scale, in bf16, with which codes up to `levels` reach
/// `greatest`.
uint16_t chooseScale(int32_t greatest, float levels) {
  if (greatest >= kInfinity)
    return kQuietNaN;
  float exact = std::bit_cast<float>(greatest) / levels;
  if (exact < kLeastScale)
    return 0;
  // It is rounded up, so that no code exceeds `levels`.
  return uint16_t((std::bit_cast<uint32_t>(exact) + 0xffff) >> 16);
}

float inverseOf(uint16_t scale) {
  return scale == 0 || scale == kQuietNaN ? 0.0f : 1.0f / scaleOf(scale);
}

/// Rounds values to the nearest multiples of 1 / inverse, ties to even.
template <size_t Size>
void roundToCodes(const float *values, float inverse, int32_t *codes) {
  // Floats near this one have a last place of 1.
  constexpr float magic = 0x1.8p23f;
  for (size_t i = 0; i < Size; ++i)
    codes[i] = std::bit_cast<int32_t>(values[i] * inverse + magic) -
               std::bit_cast<int32_t>(magic);
}

/// Computes sums and differences of values that are `half` apart.
template <size_t Size, size_t half>
void addAndSubtract(float *values) {
  if constexpr (half < Size) {
    for (size_t i = 0; i < Size; i += 2 * half)
      for (size_t j = 0; j < half; ++j) {
        float a = values[i + j], b = values[i + half + j];
        values[i + j] = a + b;
        values[i + half + j] = a - b;
      }
    addAndSubtract<Size, 2 * half>(values);
  }
}

/// Computes the Hadamard transform without a factor. Applying it twice
/// multiplies by `Size`.
template <size_t Size>
void transform(float *values) {
  for (size_t i = 0; i < Size; i += 4) {
    float a = values[i] + values[i + 1], b = values[i] - values[i + 1];
    float c = values[i + 2] + values[i + 3], d = values[i + 2] - values[i + 3];
    values[i] = a + c;
    values[i + 1] = b + d;
    values[i + 2] = a - c;
    values[i + 3] = b - d;
  }
  addAndSubtract<Size, 4>(values);
}

/// Returns signs that look random, so that equal values do not all add up in
/// one.
template <size_t Size>
constexpr std::array<float, Size> makeSigns() {
  std::array<float, Size> signs{};
  uint32_t state = 0x9e3779b9;
  for (float &sign : signs) {
    state = state * 1664525 + 1013904223;
    sign = state >> 31 ? -1.0f : 1.0f;
  }
  return signs;
}

struct Int8 {
  static constexpr WireCode code = WireCode::Int8;
  static constexpr size_t size = kInt8Format.blockElements, bytes = size;

  static uint16_t encode(const float *values, uint8_t *out) {
    uint16_t scale = chooseScale(greatestMagnitude<size>(values), 127);
    float inverse = inverseOf(scale);
    if (inverse == 0) { // values may be NaN
      std::fill_n(out, bytes, uint8_t(0));
      return scale;
    }
    int32_t codes[size];
    roundToCodes<size>(values, inverse, codes);
    for (size_t i = 0; i < size; ++i)
      out[i] = uint8_t(codes[i]);
    return scale;
  }
  static void decode(uint16_t scale, const uint8_t *in, float *values) {
    for (size_t i = 0; i < size; ++i)
      values[i] = float(int8_t(in[i])) * scaleOf(scale);
  }
};

struct Int4 {
  static constexpr WireCode code = WireCode::Int4;
  static constexpr size_t size = kInt4Format.blockElements, bytes = size / 2;
  static constexpr std::array<float, size> signs = makeSigns<size>();

  static uint16_t encode(const float *values, uint8_t *out) {
    float rotated[size];
    for (size_t i = 0; i < size; ++i)
      rotated[i] = values[i] * signs[i];
    transform<size>(rotated);
    uint16_t scale = chooseScale(greatestMagnitude<size>(rotated), 7);
    float inverse = inverseOf(scale);
    if (inverse == 0) {
      std::fill_n(out, bytes, uint8_t(0));
      return scale;
    }
    int32_t codes[size];
    roundToCodes<size>(rotated, inverse, codes);
    for (size_t i = 0; i < bytes; ++i)
      out[i] = uint8_t((codes[i] & 15) | (codes[i + bytes] << 4));
    return scale;
  }
  static void decode(uint16_t scale, const uint8_t *in, float *values) {
    for (size_t i = 0; i < bytes; ++i) {
      values[i] = float(int8_t(in[i] << 4) >> 4);
      values[i + bytes] = float(int8_t(in[i]) >> 4);
    }
    // The transform of small integers is exact, so both sides get the same
    // bits.
    transform<size>(values);
    float factor = scaleOf(scale) / float(size);
    for (size_t i = 0; i < size; ++i)
      values[i] *= signs[i] * factor;
  }
};

/// The places of a message's parts.
template <typename Block, typename Byte>
struct Parts {
  Parts(Byte *message, size_t elements)
      : blocks((elements + Block::size - 1) / Block::size),
        scales(message + kMessageHeaderBytes),
        codes(scales + blocks * kScaleBytes) {}

  size_t blocks;
  Byte *scales, *codes;
};

uint64_t checksumOf(std::span<const std::byte> message) {
  return XXH3_64bits(message.data() + kMessageHeaderBytes,
                     message.size() - kMessageHeaderBytes);
}

/// Quantises `count` values of a block.
template <typename Block>
uint16_t quantizeBlock(DType type, const std::byte *values, float *residual,
                       size_t count, uint8_t *codes) {
  float sums[Block::size], decoded[Block::size];
  convertElements(reinterpret_cast<std::byte *>(sums), DType::F32, values, type,
                  count);
  for (size_t i = 0; i < count; ++i)
    sums[i] += residual[i];
  std::fill(sums + count, sums + Block::size, 0.0f);
  uint16_t scale = Block::encode(sums, codes);
  // The values are as the receiver computes them, also rounded to their type.
  Block::decode(scale, codes, decoded);
  if (type != DType::F32) {
    std::byte rounded[Block::size * sizeof(float)];
    auto *bytes = reinterpret_cast<std::byte *>(decoded);
    convertElements(rounded, type, bytes, DType::F32, count);
    convertElements(bytes, DType::F32, rounded, type, count);
  }
  for (size_t i = 0; i < count; ++i) {
    float left = sums[i] - decoded[i];
    bool isFinite = std::fabs(left) <= std::numeric_limits<float>::max();
    residual[i] = isFinite ? left : 0.0f;
  }
  return scale;
}

template <typename Block>
void quantizeAs(DType type, std::span<const std::byte> values,
                std::span<float> residual, std::byte *message) {
  Parts<Block, std::byte> parts(message, residual.size());
  for (size_t block = 0; block < parts.blocks; ++block) {
    size_t begin = block * Block::size;
    uint16_t scale = quantizeBlock<Block>(
        type, values.data() + begin * byteSize(type), residual.data() + begin,
        std::min(Block::size, residual.size() - begin),
        reinterpret_cast<uint8_t *>(parts.codes) + block * Block::bytes);
    std::memcpy(parts.scales + block * kScaleBytes, &scale, sizeof(scale));
  }
}

template <typename Block>
void dequantizeAs(DType type, const std::byte *message,
                  std::span<std::byte> values) {
  size_t elements = values.size() / byteSize(type);
  Parts<Block, const std::byte> parts(message, elements);
  for (size_t block = 0; block < parts.blocks; ++block) {
    uint16_t scale;
    std::memcpy(&scale, parts.scales + block * kScaleBytes, sizeof(scale));
    float decoded[Block::size];
    Block::decode(scale,
                  reinterpret_cast<const uint8_t *>(parts.codes) +
                      block * Block::bytes,
                  decoded);
    size_t begin = block * Block::size;
    convertElements(values.data() + begin * byteSize(type), type,
                    reinterpret_cast<const std::byte *>(decoded), DType::F32,
                    std::min(Block::size, elements - begin));
  }
}

void checkMessage(const Quantization &quantization,
                  std::span<const std::byte> message, size_t elements) {
  size_t expected = quantizedBytes(formatOf(quantization.code), elements);
  if (message.size() != expected)
    throw CodeError("expected " + std::to_string(expected) + " bytes, got " +
                    std::to_string(message.size()));
  if (elements == 0)
    return;
  QuantizedHeader header;
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.magic != kQuantizedMagic ||
      header.code != uint8_t(quantization.code) ||
      header.type != uint8_t(quantization.type) || header.elements != elements)
    throw CodeError("expected a message of " + std::to_string(elements) +
                    " quantised values of type " + name(quantization.type) +
                    ", got something else");
  if (header.checksum != checksumOf(message))
    throw CodeError("it does not have the sender's checksum: it is damaged");
}

} // namespace

void quantize(const Quantization &quantization,
              std::span<const std::byte> values, std::span<float> residual,
              std::span<std::byte> message) {
  size_t elements = values.size() / byteSize(quantization.type);
  size_t bytes = quantizedBytes(formatOf(quantization.code), elements);
  if (residual.size() != elements || message.size() != bytes)
    throw std::runtime_error(
        "expected a residual of " + std::to_string(elements) + " numbers and " +
        std::to_string(bytes) + " bytes for a message, got " +
        std::to_string(residual.size()) + " and " +
        std::to_string(message.size()));
  if (elements == 0)
    return;
  // The bytes after the last block are zeroed, too.
  std::fill_n(message.begin(), kMessageHeaderBytes, std::byte{});
  std::fill_n(message.end() - kMessageAlignment, kMessageAlignment,
              std::byte{});
  if (quantization.code == WireCode::Int4)
    quantizeAs<Int4>(quantization.type, values, residual, message.data());
  else
    quantizeAs<Int8>(quantization.type, values, residual, message.data());
  QuantizedHeader header{kQuantizedMagic,
                         uint8_t(quantization.code),
                         uint8_t(quantization.type),
                         0,
                         elements,
                         checksumOf(message)};
  std::memcpy(message.data(), &header, sizeof(header));
}

void dequantize(const Quantization &quantization,
                std::span<const std::byte> message,
                std::span<std::byte> values) {
  checkMessage(quantization, message,
               values.size() / byteSize(quantization.type));
  if (quantization.code == WireCode::Int4)
    dequantizeAs<Int4>(quantization.type, message.data(), values);
  else
    dequantizeAs<Int8>(quantization.type, message.data(), values);
}

} // namespace fcdp
