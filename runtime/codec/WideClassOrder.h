// SPDX-License-Identifier: Apache-2.0
//
// The loops of ClassOrder over 64 bytes at once. Results are the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fcdp {

inline constexpr size_t kNumClasses = 8;
using ClassSizes = std::array<uint32_t, kNumClasses>;

/// Returns the beginning of each class if one follows the other.
constexpr ClassSizes placesOf(const ClassSizes &sizes) {
  ClassSizes places{};
  for (size_t which = 1; which < kNumClasses; ++which)
    places[which] = places[which - 1] + sizes[which - 1];
  return places;
}

/// Returns whether the processor has the instructions that the functions below
/// need.
bool hasWideClassOrder();

void countWide(const uint8_t *classes, size_t count, ClassSizes &sizes);
void sortWide(const uint8_t *classes, size_t count, const ClassSizes &sizes,
              const uint8_t *in, uint8_t *out);
void restoreWide(const uint8_t *classes, size_t count, const ClassSizes &sizes,
                 const uint8_t *in, uint8_t *out);

} // namespace fcdp
