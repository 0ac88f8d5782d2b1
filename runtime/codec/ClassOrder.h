// SPDX-License-Identifier: Apache-2.0
//
// Sorts bytes by classes. An update moves all parameters by about the same
// amount, so a difference in bit patterns depends on the parameter's exponent:
// the bytes of one class of exponents have less entropy than all bytes
// together.
#pragma once

#include "codec/WideClassOrder.h"

namespace fcdp {

/// The exponents of 16-bit floats: `(bits >> shift) & mask`.
struct ExponentBits {
  unsigned shift, mask;
};

/// Sorts values into classes. Class c has the values whose exponent is c below
/// the top. The first class also has all greater exponents, and the last class
/// all smaller ones.
class ClassOrder {
public:
  /// `mayBeWide` is false in tests of the portable loops.
  explicit ClassOrder(bool mayBeWide = true);

  /// Returns an exponent that few of the values exceed.
  static uint8_t chooseTop(const uint16_t *values, size_t count,
                           ExponentBits bits);

  /// Finds the class of each value. `classes` must have room for `count`, and
  /// must stay unchanged until the last call of `sort` or `restore`.
  void classify(const uint16_t *values, size_t count, ExponentBits bits,
                uint8_t top, uint8_t *classes);
  /// Returns the number of values of a class.
  size_t size(size_t which) const { return sizes[which]; }

  /// Writes the byte of each value to `out`, one class after the other.
  void sort(const uint8_t *in, uint8_t *out) const;
  /// Undoes `sort`.
  void restore(const uint8_t *in, uint8_t *out) const;

private:
  /// Parts of the values whose loops run interleaved: within one part, each
  /// byte's place depends on the byte before it.
  static constexpr size_t kLanes = 4;
  using Lanes = std::array<ClassSizes, kLanes>;

  void countLanes();
  Lanes findPlaces() const;
  template <typename Move>
  void forEach(Move move) const;

  const bool isWide;
  const uint8_t *classes = nullptr;
  size_t count = 0;
  ClassSizes sizes{};
  /// The sizes of each lane, unless loops are wide.
  Lanes laneSizes{};
};

} // namespace fcdp
