// SPDX-License-Identifier: Apache-2.0

#include "codec/ClassOrder.h"

#include <algorithm>

namespace fcdp {

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
    out[i] = uint8_t(std::clamp(below, 0, int(kClasses) - 1));
  }
  classes = out;
  count = number;
  sizes = {};
  forEach([&](size_t lane, size_t i) { ++sizes[lane][classes[i]]; });
}

size_t ClassOrder::size(size_t which) const {
  size_t sum = 0;
  for (const auto &lane : sizes)
    sum += lane[which];
  return sum;
}

/// Calls `move` for each value and its lane.
template <typename Move>
void ClassOrder::forEach(Move move) const {
  const size_t part = count / kLanes;
  for (size_t i = 0; i < part; ++i)
    for (size_t lane = 0; lane < kLanes; ++lane)
      move(lane, lane * part + i);
  for (size_t i = kLanes * part; i < count; ++i)
    move(kLanes - 1, i);
}

/// Returns where the values of each lane and class begin.
template <typename Sizes>
static Sizes findPlaces(const Sizes &sizes) {
  Sizes places{};
  uint32_t next = 0;
  for (size_t which = 0; which < ClassOrder::kClasses; ++which)
    for (size_t lane = 0; lane < sizes.size(); ++lane) {
      places[lane][which] = next;
      next += sizes[lane][which];
    }
  return places;
}

void ClassOrder::sort(const uint8_t *in, uint8_t *out) const {
  Places places = findPlaces(sizes);
  forEach(
      [&](size_t lane, size_t i) { out[places[lane][classes[i]]++] = in[i]; });
}

void ClassOrder::restore(const uint8_t *in, uint8_t *out) const {
  Places places = findPlaces(sizes);
  forEach(
      [&](size_t lane, size_t i) { out[i] = in[places[lane][classes[i]]++]; });
}

} // namespace fcdp
