// SPDX-License-Identifier: Apache-2.0
//
// The element types of the CUDA backend's kernels, on the device and on the
// host.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FCDP_HOST_DEVICE __host__ __device__
#else
#define FCDP_HOST_DEVICE
#endif

namespace fcdp::cuda {

template <typename To, typename From>
FCDP_HOST_DEVICE inline To bitCast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  __builtin_memcpy(&result, &value, sizeof(result));
  return result;
}

/// Element types: the storage type, the type of sums, and conversions between
/// them that round to nearest even.
struct F32 {
  using Storage = float;
  using Sum = float;
  FCDP_HOST_DEVICE static float load(float value) { return value; }
  FCDP_HOST_DEVICE static float store(float value) { return value; }
};

struct F64 {
  using Storage = double;
  using Sum = double;
  FCDP_HOST_DEVICE static double load(double value) { return value; }
  FCDP_HOST_DEVICE static double store(double value) { return value; }
};

struct BF16 {
  using Storage = uint16_t;
  using Sum = float;
  FCDP_HOST_DEVICE static float load(uint16_t value) {
    return bitCast<float>(uint32_t(value) << 16);
  }
  FCDP_HOST_DEVICE static uint16_t store(float value) {
    uint32_t bits = bitCast<uint32_t>(value);
    // Rounding could carry a NaN's payload into infinity, so a NaN is made
    // quiet.
    if ((bits & 0x7fffffff) > 0x7f800000)
      return uint16_t((bits >> 16) | 0x40);
    // Adds half of the last place, minus one if the last place is even.
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
};

struct F16 {
  using Storage = uint16_t;
  using Sum = float;
  FCDP_HOST_DEVICE static float load(uint16_t value) {
    uint32_t sign = uint32_t(value & 0x8000) << 16;
    uint32_t magnitude = uint32_t(value & 0x7fff) << 13;
    // Exponents are off by 112 after the shift. Multiplying by 2^112 corrects
    // them and, unlike adding 112 to them, is right for denormals too.
    uint32_t bits = bitCast<uint32_t>(bitCast<float>(magnitude) * 0x1p112f);
    if (magnitude >= (0x7c00u << 13))
      bits |= 0x7f800000u;
    return bitCast<float>(bits | sign);
  }
  FCDP_HOST_DEVICE static uint16_t store(float value) {
    uint32_t bits = bitCast<uint32_t>(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
      return uint16_t(0x7e00 | sign);
    // From 65520 on, halfway above the greatest f16, the result is infinite.
    if (magnitude >= 0x477ff000)
      return uint16_t(0x7c00 | sign);
    // Below 2^-14, adding 0.5, whose last place is f16's smallest denormal,
    // makes the addition round to it.
    if (magnitude < (113u << 23))
      return uint16_t(
          (bitCast<uint32_t>(bitCast<float>(magnitude) + 0.5f) - 0x3f000000) |
          sign);
    // For normal results, rebias the exponent by -112 and round to nearest
    // even.
    uint32_t rounded =
        (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
    return uint16_t(rounded | sign);
  }
};

} // namespace fcdp::cuda
