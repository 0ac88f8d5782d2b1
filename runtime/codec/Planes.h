// SPDX-License-Identifier: Apache-2.0
//
// Floating-point values as planes of bytes of which some have little entropy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fcdp {

/// Splits differences of 16-bit floats, bf16 or f16, into planes: of each value
/// from its reference, in the order of their bit patterns, as signed numbers
/// whose sign is the lowest bit. So values near their reference have small
/// numbers. All 65536 patterns come back, also -0 and each NaN.
void splitDifferences(const uint16_t *values, const uint16_t *references,
                      size_t count, uint8_t *low, uint8_t *high);
/// Undoes splitDifferences. `values` may be `references`.
void joinDifferences(const uint8_t *low, const uint8_t *high,
                     const uint16_t *references, size_t count,
                     uint16_t *values);

/// Splits values of `Bits`, rotated by the sign, into their highest byte, which
/// is the exponent (and, of f16, three bits of the fraction), and the plane of
/// each other byte, one behind the other in `rest`.
template <typename Bits>
void splitExponents(const Bits *values, size_t count, uint8_t *rest,
                    uint8_t *exponents);
/// Undoes splitExponents.
template <typename Bits>
void joinExponents(const uint8_t *rest, const uint8_t *exponents, size_t count,
                   Bits *values);

} // namespace fcdp
