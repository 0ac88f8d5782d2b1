// SPDX-License-Identifier: Apache-2.0

#include "codec/WideClassOrder.h"

#if defined(__x86_64__)

#include <bit>
#include <immintrin.h>

#define FCDP_WIDE                                                              \
  __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")))

namespace fcdp {
namespace {

constexpr size_t kWidth = 64;

/// Returns a mask of the `count` lowest bytes, at most 64.
FCDP_WIDE uint64_t lowest(size_t count) {
  return count >= kWidth ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
}

FCDP_WIDE uint64_t findClass(__m512i classes, uint64_t among, size_t which) {
  return _mm512_mask_cmpeq_epi8_mask(among, classes,
                                     _mm512_set1_epi8(char(which)));
}

} // namespace

bool hasWideClassOrder() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2");
}

FCDP_WIDE void countWide(const uint8_t *classes, size_t count,
                         ClassSizes &sizes) {
  sizes = {};
  for (size_t i = 0; i < count; i += kWidth) {
    uint64_t all = lowest(count - i);
    __m512i found = _mm512_maskz_loadu_epi8(all, classes + i);
    for (size_t which = 0; which < sizes.size(); ++which)
      sizes[which] += uint32_t(std::popcount(findClass(found, all, which)));
  }
}

FCDP_WIDE void sortWide(const uint8_t *classes, size_t count,
                        const ClassSizes &sizes, const uint8_t *in,
                        uint8_t *out) {
  ClassSizes places = placesOf(sizes);
  for (size_t i = 0; i < count; i += kWidth) {
    uint64_t all = lowest(count - i);
    __m512i found = _mm512_maskz_loadu_epi8(all, classes + i);
    __m512i bytes = _mm512_maskz_loadu_epi8(all, in + i);
    for (size_t which = 0; which < sizes.size(); ++which) {
      uint64_t mask = findClass(found, all, which);
      auto number = uint32_t(std::popcount(mask));
      _mm512_mask_storeu_epi8(out + places[which], lowest(number),
                              _mm512_maskz_compress_epi8(mask, bytes));
      places[which] += number;
    }
  }
}

FCDP_WIDE void restoreWide(const uint8_t *classes, size_t count,
                           const ClassSizes &sizes, const uint8_t *in,
                           uint8_t *out) {
  ClassSizes places = placesOf(sizes);
  for (size_t i = 0; i < count; i += kWidth) {
    uint64_t all = lowest(count - i);
    __m512i found = _mm512_maskz_loadu_epi8(all, classes + i);
    __m512i bytes = _mm512_setzero_si512();
    for (size_t which = 0; which < sizes.size(); ++which) {
      uint64_t mask = findClass(found, all, which);
      auto number = uint32_t(std::popcount(mask));
      __m512i packed =
          _mm512_maskz_loadu_epi8(lowest(number), in + places[which]);
      bytes = _mm512_mask_expand_epi8(bytes, mask, packed);
      places[which] += number;
    }
    _mm512_mask_storeu_epi8(out + i, all, bytes);
  }
}

} // namespace fcdp

#else

namespace fcdp {

bool hasWideClassOrder() { return false; }
void countWide(const uint8_t *, size_t, ClassSizes &) {}
void sortWide(const uint8_t *, size_t, const ClassSizes &, const uint8_t *,
              uint8_t *) {}
void restoreWide(const uint8_t *, size_t, const ClassSizes &, const uint8_t *,
                 uint8_t *) {}

} // namespace fcdp

#endif
