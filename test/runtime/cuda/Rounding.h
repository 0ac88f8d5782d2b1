// SPDX-License-Identifier: Apache-2.0
//
// Gradients whose messages are rounded, and what the CPU makes of them.
#pragma once

#include "codec/Quantizer.h"
#include "core/SumKernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace fcdp {

inline constexpr uint32_t kRoundingRanks = 3, kRoundingRank = 1;

/// Parts of gradients for all ranks, residuals, and memory for messages.
struct Rounding {
  Rounding(WireCode code, DType type, uint64_t elements)
      : quantization{code, type}, elements(elements),
        partBytes(elements * byteSize(type)),
        messageBytes(quantizedBytes(formatOf(code), elements)),
        values(kRoundingRanks * partBytes), residual(kRoundingRanks * elements),
        messages(kRoundingRanks * messageBytes) {
    std::mt19937 random(uint32_t(elements) + 1);
    std::normal_distribution<float> normal;
    std::vector<float> wide(kRoundingRanks * elements);
    for (float &value : wide)
      value = std::ldexp(normal(random), int(random() % 12) - 20);
    // Blocks of zeros, of denormals, and with values that are not finite.
    for (uint64_t i = 256; i < std::min<uint64_t>(wide.size(), 512); ++i)
      wide[i] = 0;
    for (uint64_t i = 512; i < std::min<uint64_t>(wide.size(), 768); ++i)
      wide[i] = std::ldexp(normal(random), -130);
    if (wide.size() > 2000) {
      wide[1000] = std::numeric_limits<float>::infinity();
      wide[1900] = std::numeric_limits<float>::quiet_NaN();
    }
    convertElements(values.data(), type,
                    reinterpret_cast<const std::byte *>(wide.data()),
                    DType::F32, wide.size());
    for (uint64_t i = 0; i < residual.size(); ++i)
      residual[i] = i >= 256 && i < 768 ? 0 : std::ldexp(normal(random), -22);
  }

  std::span<std::byte> message(std::vector<std::byte> &of,
                               uint32_t rank) const {
    return std::span(of).subspan(rank * messageBytes, messageBytes);
  }

  /// Rounds all parts but this rank's on the CPU.
  void quantizeOnCpu() {
    for (uint32_t rank = 0; rank < kRoundingRanks; ++rank)
      if (rank != kRoundingRank)
        quantize(quantization,
                 std::span(values).subspan(rank * partBytes, partBytes),
                 std::span(residual).subspan(rank * elements, elements),
                 message(messages, rank));
  }

  /// Sums in the order of ranks, of values that were rounded on the CPU.
  std::vector<std::byte> sumOnCpu(DType outType) {
    std::vector<std::byte> decoded = values, out(elements * byteSize(outType));
    std::vector<const std::byte *> parts;
    for (uint32_t rank = 0; rank < kRoundingRanks; ++rank) {
      std::span part = std::span(decoded).subspan(rank * partBytes, partBytes);
      if (rank != kRoundingRank)
        dequantize(quantization, message(messages, rank), part);
      parts.push_back(part.data());
    }
    sumGroups(out.data(), outType, parts, /*locals=*/1, quantization.type,
              elements);
    return out;
  }

  const Quantization quantization;
  const uint64_t elements, partBytes, messageBytes;
  std::vector<std::byte> values;
  std::vector<float> residual;
  std::vector<std::byte> messages;
};

} // namespace fcdp
