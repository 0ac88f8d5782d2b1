// SPDX-License-Identifier: Apache-2.0

#include "codec/ClassOrder.h"

#include <algorithm>

namespace fcdp {

ClassOrder::ClassOrder(bool mayBeWide)
    : isWide(mayBeWide && hasWideClassOrder()) {}

uint8_t ClassOrder::chooseTop(const uint16_t *values, size_t count,
                              ExponentBits bits) {
  constexpr size_t step = 64, share = 20;
  std::array<uint32_t, 256> found{};
  for (size_t i = 0; i < count; i += step)
    ++found[(values[i] >> bits.shift) & bits.mask];
  size_t above = 0, most = count / step / share;
  uint8_t top = uint8_t(bits.mask);
  while (top > 0 && (above += found[top]) <= most)
    --top;
  return top;
}

void ClassOrder::classify(const uint16_t *values, size_t number,
                          ExponentBits bits, uint8_t top, uint8_t *out) {
  for (size_t i = 0; i < number; ++i) {
    int below = int(top) - int((values[i] >> bits.shift) & bits.mask);
    out[i] = uint8_t(std::clamp(below, 0, int(kNumClasses) - 1));
  }
  classes = out;
  count = number;
  if (isWide)
    countWide(classes, count, sizes);
  else
    countLanes();
}

/// Calls `move` for each value with its lane and class. Members are copied to
/// locals first, because compilers must assume that `move` writes to them.
template <typename Move>
void ClassOrder::forEach(Move move) const {
  const size_t number = count, part = number / kLanes;
  const uint8_t *const first = classes, *const second = first + part,
                       *const third = second + part,
                       *const fourth = third + part;
  for (size_t i = 0; i < part; ++i) {
    move(0, first[i], i);
    move(1, second[i], part + i);
    move(2, third[i], 2 * part + i);
    move(3, fourth[i], 3 * part + i);
  }
  for (size_t i = kLanes * part; i < number; ++i)
    move(3, first[i], i);
}

void ClassOrder::countLanes() {
  Lanes found{};
  forEach([&](size_t lane, uint8_t which, size_t) { ++found[lane][which]; });
  laneSizes = found;
  sizes = {};
  for (const ClassSizes &lane : laneSizes)
    for (size_t which = 0; which < kNumClasses; ++which)
      sizes[which] += lane[which];
}

/// Returns the beginnings of the values of each lane and class.
ClassOrder::Lanes ClassOrder::findPlaces() const {
  Lanes places{};
  uint32_t next = 0;
  for (size_t which = 0; which < kNumClasses; ++which)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      places[lane][which] = next;
      next += laneSizes[lane][which];
    }
  return places;
}

void ClassOrder::sort(const uint8_t *in, uint8_t *out) const {
  if (isWide)
    return sortWide(classes, count, sizes, in, out);
  Lanes places = findPlaces();
  forEach([&](size_t lane, uint8_t which, size_t i) {
    out[places[lane][which]++] = in[i];
  });
}

void ClassOrder::restore(const uint8_t *in, uint8_t *out) const {
  if (isWide)
    return restoreWide(classes, count, sizes, in, out);
  Lanes places = findPlaces();
  forEach([&](size_t lane, uint8_t which, size_t i) {
    out[i] = in[places[lane][which]++];
  });
}

} // namespace fcdp
