// SPDX-License-Identifier: Apache-2.0
//
// This file is compiled with -ffp-contract=off: a fused multiply-add has other
// bits than a product that is rounded before a sum.
#include "core/PackedBlocks.h"

#include "core/SumKernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace fcdp {

namespace {

constexpr std::array<float, 16> kNf4 = {-1,
                                        -0x1.647362p-1,
                                        -0x1.0cd66p-1,
                                        -0x1.946540p-2,
                                        -0x1.23449ap-2,
                                        -0x1.7a6a7ep-3,
                                        -0x1.74f0e2p-4,
                                        0,
                                        0x1.45f5fep-4,
                                        0x1.4995c6p-3,
                                        0x1.f809bap-3,
                                        0x1.5a0674p-2,
                                        0x1.c34970p-2,
                                        0x1.200f56p-1,
                                        0x1.722766p-1,
                                        1};

constexpr float kLeastAbsmax = 1e-38F;

/// The number of values that are unpacked before they are rounded.
constexpr int64_t kPiece = 256;

/// Returns the number of midpoints of neighbouring codes that are less than
/// `scaled`, which is the nearest code.
uint8_t nearestNf4(float scaled) {
  uint8_t code = 0;
  for (size_t i = 0; i + 1 < kNf4.size(); ++i)
    code += (kNf4[i] + kNf4[i + 1]) / 2 < scaled;
  return code;
}

float greatestMagnitude(std::span<const float> values) {
  float most = 0;
  for (float value : values) {
    if (!std::isfinite(value))
      return INFINITY;
    most = std::max(most, std::abs(value));
  }
  return most;
}

void storeScale(float scale, std::byte *out) {
  std::memcpy(out, &scale, sizeof(scale));
}

/// bitsandbytes divides the values of a block that is not full, and multiplies
/// others by the reciprocal.
void packNf4(std::span<const float> values, bool isFull, float absmax,
             std::byte *out) {
  const float clamped = std::max(absmax, kLeastAbsmax);
  const float factor = 1 / clamped;
  storeScale(isFull ? absmax : clamped, out);
  auto code = [&](size_t i) {
    constexpr uint8_t zero = 7;
    if (i >= values.size())
      return zero;
    return nearestNf4(isFull ? values[i] * factor : values[i] / clamped);
  };
  for (size_t i = 0; i < values.size(); i += 2)
    out[PackedLayout::kScaleBytes + i / 2] =
        std::byte(code(i) << 4 | code(i + 1));
}

bool packInt8(std::span<const float> values, std::byte *out) {
  std::vector<float> narrowed(values.begin(), values.end());
  std::vector<uint16_t> halves(values.size());
  auto *wide = reinterpret_cast<std::byte *>(narrowed.data());
  auto *narrow = reinterpret_cast<std::byte *>(halves.data());
  convertElements(narrow, DType::F16, wide, DType::F32, values.size());
  convertElements(wide, DType::F32, narrow, DType::F16, values.size());
  const float absmax = greatestMagnitude(narrowed);
  if (!std::isfinite(absmax))
    return false;
  storeScale(absmax, out);
  const float factor = absmax > 0 ? 1 / absmax * 127 : 0;
  for (size_t i = 0; i < values.size(); ++i)
    out[PackedLayout::kScaleBytes + i] =
        std::byte(int8_t(std::nearbyint(narrowed[i] * factor)));
  return true;
}

/// Unpacks `count` values of a block from its code `first` on, an even number.
void unpackPiece(const PackedLayout &layout, const std::byte *block,
                 int64_t first, int64_t count, float *out) {
  float scale;
  std::memcpy(&scale, block, sizeof(scale));
  const std::byte *codes = block + PackedLayout::kScaleBytes;
  if (layout.codeBits == 8) {
    const float step = scale * (1.0F / 127);
    for (int64_t i = 0; i < count; ++i)
      out[i] = float(int8_t(codes[first + i])) * step;
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto pair = uint8_t(codes[(first + i) / 2]);
    out[i] = kNf4[i % 2 == 0 ? pair >> 4 : pair & 15] * scale;
  }
}

} // namespace

std::span<const float, 16> nf4Values() { return kNf4; }

bool packBlock(const PackedLayout &layout, std::span<const float> values,
               std::byte *out) {
  if (layout.codeBits == 8)
    return packInt8(values, out);
  const float absmax = greatestMagnitude(values);
  if (!std::isfinite(absmax))
    return false;
  packNf4(values, int64_t(values.size()) == layout.blockValues, absmax, out);
  return true;
}

void writeBlock(float scale, std::span<const std::byte> codes, std::byte *out) {
  storeScale(scale, out);
  std::copy(codes.begin(), codes.end(), out + PackedLayout::kScaleBytes);
}

void unpackBlocks(const PackedLayout &layout, const std::byte *packed,
                  int64_t first, int64_t end, DType dtype, std::byte *out) {
  if (dtype != DType::F32 && dtype != DType::BF16 && dtype != DType::F16)
    throw std::runtime_error(
        "expected matrices to be unpacked to f32, bf16 or f16, got " +
        std::string(name(dtype)));
  const auto width = int64_t(byteSize(dtype));
  std::array<float, kPiece> piece;
  for (int64_t block = first; block < end; ++block) {
    const std::byte *bytes = packed + block * layout.blockBytes();
    std::byte *to = out + block * layout.blockValues * width;
    const int64_t values = layout.valuesOf(block);
    for (int64_t begin = 0; begin < values; begin += kPiece) {
      const int64_t count = std::min(kPiece, values - begin);
      unpackPiece(layout, bytes, begin, count, piece.data());
      convertElements(to + begin * width, dtype,
                      reinterpret_cast<const std::byte *>(piece.data()),
                      DType::F32, size_t(count));
    }
  }
}

} // namespace fcdp
