// SPDX-License-Identifier: Apache-2.0

#include "codec/Planes.h"

#include <bit>

namespace fcdp {
namespace {

/// Returns the rank of a 16-bit float among all in ascending order. Negative
/// ones have all bits inverted, others the sign.
uint16_t orderOf(uint16_t bits) {
  return bits ^ uint16_t((int16_t(bits) >> 15) | 0x8000);
}

/// Undoes orderOf.
uint16_t bitsAt(uint16_t order) {
  return order ^ uint16_t((int16_t(~order) >> 15) | 0x8000);
}

} // namespace

void splitDifferences(const uint16_t *values, const uint16_t *references,
                      size_t count, uint8_t *low, uint8_t *high) {
  for (size_t i = 0; i < count; ++i) {
    auto difference = int16_t(orderOf(values[i]) - orderOf(references[i]));
    auto folded = uint16_t((difference << 1) ^ (difference >> 15));
    low[i] = uint8_t(folded);
    high[i] = uint8_t(folded >> 8);
  }
}

void joinDifferences(const uint8_t *low, const uint8_t *high,
                     const uint16_t *references, size_t count,
                     uint16_t *values) {
  for (size_t i = 0; i < count; ++i) {
    auto folded = uint16_t(low[i] | high[i] << 8);
    auto difference = uint16_t((folded >> 1) ^ -(folded & 1));
    values[i] = bitsAt(uint16_t(orderOf(references[i]) + difference));
  }
}

template <typename Bits>
void splitExponents(const Bits *values, size_t count, uint8_t *rest,
                    uint8_t *exponents) {
  constexpr size_t last = sizeof(Bits) - 1;
  for (size_t byte = 0; byte < last; ++byte)
    for (size_t i = 0; i < count; ++i)
      rest[byte * count + i] = uint8_t(std::rotl(values[i], 1) >> 8 * byte);
  for (size_t i = 0; i < count; ++i)
    exponents[i] = uint8_t(std::rotl(values[i], 1) >> 8 * last);
}

template <typename Bits>
void joinExponents(const uint8_t *rest, const uint8_t *exponents, size_t count,
                   Bits *values) {
  constexpr size_t last = sizeof(Bits) - 1;
  for (size_t i = 0; i < count; ++i) {
    Bits rotated = Bits(Bits(exponents[i]) << 8 * last);
    for (size_t byte = 0; byte < last; ++byte)
      rotated |= Bits(Bits(rest[byte * count + i]) << 8 * byte);
    values[i] = std::rotr(rotated, 1);
  }
}

template void splitExponents(const uint16_t *, size_t, uint8_t *, uint8_t *);
template void splitExponents(const uint32_t *, size_t, uint8_t *, uint8_t *);
template void joinExponents(const uint8_t *, const uint8_t *, size_t,
                            uint16_t *);
template void joinExponents(const uint8_t *, const uint8_t *, size_t,
                            uint32_t *);

} // namespace fcdp
