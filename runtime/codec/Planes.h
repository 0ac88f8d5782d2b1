// SPDX-License-Identifier: Apache-2.0
//
// Splits floating-point values into planes of bytes, some of which have little
// entropy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fcdp {

/// Splits the differences of 16-bit floats, bf16 or f16, from their references
/// into planes. A difference is taken in the order of the bit patterns, as a
/// signed number whose sign is the lowest bit, so values near their reference
/// have small numbers. All 65536 patterns are restored exactly, also -0 and
/// each NaN.
void splitDifferences(const uint16_t *values, const uint16_t *references,
                      size_t count, uint8_t *low, uint8_t *high);
/// Undoes splitDifferences. `values` may be `references`.
void joinDifferences(const uint8_t *low, const uint8_t *high,
                     const uint16_t *references, size_t count,
                     uint16_t *values);

/// Splits values of type `Bits`, rotated by the sign, into planes. Their
/// highest byte is the exponent (for f16, also three bits of the fraction). The
/// planes of the other bytes follow each other in `rest`.
template <typename Bits>
void splitExponents(const Bits *values, size_t count, uint8_t *rest,
                    uint8_t *exponents);
/// Undoes splitExponents.
template <typename Bits>
void joinExponents(const uint8_t *rest, const uint8_t *exponents, size_t count,
                   Bits *values);

} // namespace fcdp
