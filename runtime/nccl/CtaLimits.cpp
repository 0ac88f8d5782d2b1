// SPDX-License-Identifier: Apache-2.0

#include "nccl/CtaLimits.h"

#include <algorithm>
#include <bit>

namespace fcdp {

/// Returns the number of thread blocks that saturate NVLink in one direction,
/// or nearly. NCCL (tuning.cc, perChMaxRingLL128Bws) expects 20 GB/s of each up
/// to Ampere, 36.7 GB/s on Hopper and 40 GB/s on Blackwell; NVLink has 300, 450
/// and 900 GB/s (NVIDIA data sheets of A100, H100 and B200). With 12, and 16
/// for reductions, an H100 has room for groups within nodes and over all ranks.
static uint32_t ctasForNvlink(uint32_t major) {
  if (major < 9)
    return 16;
  return major == 9 ? 12 : 23;
}

/// Thread blocks for a network. By the same figures, this is more than an
/// adapter of 400 Gbit/s needs.
constexpr uint32_t ctasForNetwork = 4;

CtaLimits limitCtas(uint32_t multiprocessors, uint32_t major,
                    const GroupCounts &groups) {
  const uint32_t available = multiprocessors / 2;
  uint32_t within = ctasForNvlink(major);
  CtaLimits limits{within, std::bit_ceil(within), ctasForNetwork, 1};
  auto &[gathers, reductions, between, control] = limits;
  auto sum = [&] {
    return groups.gathersWithin * gathers +
           groups.reductionsWithin * reductions +
           groups.betweenNodes * between + groups.control * control;
  };
  while (sum() > available && std::max({gathers, reductions, between}) > 1) {
    if (reductions >= std::max(gathers, between))
      reductions /= 2;
    else if (gathers >= between)
      --gathers;
    else
      between /= 2;
  }
  return limits;
}

} // namespace fcdp
