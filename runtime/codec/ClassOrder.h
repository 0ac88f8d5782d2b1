// SPDX-License-Identifier: Apache-2.0
//
// Bytes in the order of classes. An update moves all parameters by about the
// same, so the places that one moves by depend on its exponent: bytes of one
// class of exponents have less entropy than all together.
#pragma once

#include "codec/WideClassOrder.h"

namespace fcdp {

/// The exponents of 16-bit floats: `(bits >> shift) & mask`.
struct ExponentBits {
  unsigned shift, mask;
};

/// Class c has the values whose exponent is c below the top; the first has
/// greater ones, too, and the last smaller ones.
class ClassOrder {
public:
  /// `mayBeWide` is false in tests of the loops that every processor has.
  explicit ClassOrder(bool mayBeWide = true);

  /// Returns an exponent that few of the values exceed.
  static uint8_t chooseTop(const uint16_t *values, size_t count,
                           ExponentBits bits);

  /// Finds the class of each value. `classes` has room for `count`, and stays
  /// as it is until the last call of `sort` or `restore`.
  void classify(const uint16_t *values, size_t count, ExponentBits bits,
                uint8_t top, uint8_t *classes);
  /// Returns the number of values of a class.
  size_t size(size_t which) const { return sizes[which]; }

  /// Puts the byte of each value into `out`, one class behind the other.
  void sort(const uint8_t *in, uint8_t *out) const;
  /// Undoes `sort`.
  void restore(const uint8_t *in, uint8_t *out) const;

private:
  /// Parts of the values whose loops run beside each other: within one, each
  /// byte's place depends on the one before.
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
  /// Of each lane, unless loops are wide.
  Lanes laneSizes{};
};

} // namespace fcdp
