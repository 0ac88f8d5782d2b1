// SPDX-License-Identifier: Apache-2.0

#include "core/SumKernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

namespace fcdp {
namespace {

// The conversions are integer and float arithmetic without branches, so that
// every compiler vectorizes the loops.

struct F32 {
  using Storage = float;
  static float load(Storage value) { return value; }
  static Storage store(float value) { return value; }
};

struct F64 {
  using Storage = double;
  static double load(Storage value) { return value; }
  static Storage store(double value) { return value; }
};

struct BF16 {
  using Storage = uint16_t;
  static float load(Storage value) {
    return std::bit_cast<float>(uint32_t(value) << 16);
  }
  static Storage store(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    // Adds half of the last place, minus one if the last place is even.
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    // Rounding could carry a NaN's payload into infinity, so a NaN is made
    // quiet.
    uint32_t nan = (bits >> 16) | 0x40;
    return (bits & 0x7fffffff) > 0x7f800000 ? nan : rounded;
  }
};

struct F16 {
  using Storage = uint16_t;
  static float load(Storage value) {
    uint32_t sign = uint32_t(value & 0x8000) << 16;
    uint32_t magnitude = uint32_t(value & 0x7fff) << 13;
    // Exponents are off by 112 after the shift. Multiplying by 2^112 corrects
    // them and, unlike adding 112 to them, is right for denormals too.
    float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
    uint32_t bits = std::bit_cast<uint32_t>(scaled);
    uint32_t infinite = (magnitude >= (0x7c00u << 13)) ? 0x7f800000u : 0u;
    return std::bit_cast<float>(bits | infinite | sign);
  }
  static Storage store(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    // For normal results, rebias the exponent by -112 and round to nearest
    // even.
    uint32_t normal =
        (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
    // Below 2^-14, adding 0.5, whose last place is f16's smallest denormal,
    // makes the FPU round to it.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    uint32_t denormal = std::bit_cast<uint32_t>(shifted) - 0x3f000000;
    uint32_t result = magnitude < (113u << 23) ? denormal : normal;
    // From 65520 on, halfway above the greatest f16, the result is infinite.
    result = magnitude >= 0x477ff000 ? 0x7c00 : result;
    result = magnitude > 0x7f800000 ? 0x7e00 : result;
    return result | sign;
  }
};

/// Number of elements summed at a time, so that the sums stay in the L1 cache.
constexpr size_t blockElements = 1024;

/// Sums the elements [start, start + count) of all sources.
template <typename In, typename Sum>
void sumBlock(Sum *sums, std::span<const std::byte *const> sources,
              size_t start, size_t count) {
  using InType = typename In::Storage;
  const auto *first = reinterpret_cast<const InType *>(sources[0]) + start;
  for (size_t i = 0; i < count; ++i)
    sums[i] = In::load(first[i]);
  for (const std::byte *source : sources.subspan(1)) {
    const auto *next = reinterpret_cast<const InType *>(source) + start;
    for (size_t i = 0; i < count; ++i)
      sums[i] += In::load(next[i]);
  }
}

template <typename In, typename Sum>
void sumGroupsBlock(Sum *sums, std::span<const std::byte *const> sources,
                    size_t groupSize, size_t start, size_t count) {
  auto round = [&](Sum *partial) {
    for (size_t i = 0; i < count; ++i)
      partial[i] = In::load(In::store(partial[i]));
  };
  sumBlock<In>(sums, sources.first(groupSize), start, count);
  round(sums);
  Sum partial[blockElements];
  for (size_t at = groupSize; at < sources.size(); at += groupSize) {
    sumBlock<In>(partial, sources.subspan(at, groupSize), start, count);
    round(partial);
    for (size_t i = 0; i < count; ++i)
      sums[i] += partial[i];
  }
}

template <typename In, typename Out, typename Sum>
void sumTyped(std::byte *out, std::span<const std::byte *const> sources,
              size_t groupSize, size_t elements) {
  using OutType = typename Out::Storage;
  Sum sums[blockElements];
  for (size_t start = 0; start < elements; start += blockElements) {
    size_t count = std::min(blockElements, elements - start);
    if (groupSize == sources.size())
      sumBlock<In>(sums, sources, start, count);
    else
      sumGroupsBlock<In>(sums, sources, groupSize, start, count);
    auto *result = reinterpret_cast<OutType *>(out) + start;
    for (size_t i = 0; i < count; ++i)
      result[i] = Out::store(sums[i]);
  }
}

[[noreturn]] void refuse(DType type) {
  throw std::runtime_error(std::string("cannot sum elements of type ") +
                           name(type));
}

template <typename In, typename Sum>
void sumInto(std::byte *out, DType outType,
             std::span<const std::byte *const> sources, size_t groupSize,
             size_t elements) {
  switch (outType) {
  case DType::F16:
    return sumTyped<In, F16, Sum>(out, sources, groupSize, elements);
  case DType::BF16:
    return sumTyped<In, BF16, Sum>(out, sources, groupSize, elements);
  case DType::F32:
    return sumTyped<In, F32, Sum>(out, sources, groupSize, elements);
  case DType::F64:
    return sumTyped<In, F64, Sum>(out, sources, groupSize, elements);
  default:
    refuse(outType);
  }
}

void sumTypes(std::byte *out, DType outType,
              std::span<const std::byte *const> sources, size_t groupSize,
              DType inType, size_t elements) {
  switch (inType) {
  case DType::F16:
    return sumInto<F16, float>(out, outType, sources, groupSize, elements);
  case DType::BF16:
    return sumInto<BF16, float>(out, outType, sources, groupSize, elements);
  case DType::F32:
    return sumInto<F32, float>(out, outType, sources, groupSize, elements);
  case DType::F64:
    return sumInto<F64, double>(out, outType, sources, groupSize, elements);
  default:
    refuse(inType);
  }
}

} // namespace

bool isSummable(DType type) {
  return type == DType::F16 || type == DType::BF16 || type == DType::F32 ||
         type == DType::F64;
}

void sumChunks(std::byte *out, DType outType,
               std::span<const std::byte *const> sources, DType inType,
               size_t elements) {
  if (sources.empty())
    throw std::runtime_error("cannot sum no chunks");
  // One chunk of the same type is copied, which preserves a NaN's payload.
  if (sources.size() == 1 && inType == outType && isSummable(inType)) {
    if (out != sources[0] && elements)
      std::memmove(out, sources[0], elements * byteSize(inType));
    return;
  }
  sumTypes(out, outType, sources, sources.size(), inType, elements);
}

void convertElements(std::byte *out, DType outType, const std::byte *in,
                     DType inType, size_t elements) {
  sumChunks(out, outType, std::span(&in, 1), inType, elements);
}

void sumGroups(std::byte *out, DType outType,
               std::span<const std::byte *const> sources, size_t groupSize,
               DType inType, size_t elements) {
  if (groupSize == 0 || sources.size() % groupSize != 0)
    throw std::runtime_error("cannot sum " + std::to_string(sources.size()) +
                             " chunks in groups of " +
                             std::to_string(groupSize));
  // Rounding a single chunk to its own type does not change it.
  if (groupSize == 1 || groupSize == sources.size())
    return sumChunks(out, outType, sources, inType, elements);
  sumTypes(out, outType, sources, groupSize, inType, elements);
}

} // namespace fcdp
