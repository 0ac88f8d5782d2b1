// SPDX-License-Identifier: Apache-2.0

#include "nccl/CtaLimits.h"

#include <algorithm>

namespace fcdp {

/// Thread blocks that saturate NVLink in one direction. NCCL (tuning.cc,
/// perChMaxRingLL128Bws) expects 20 GB/s of each up to Ampere, 36.7 GB/s on
/// Hopper and 40 GB/s on Blackwell; NVLink has 300, 450 and 900 GB/s (NVIDIA
/// data sheets of A100, H100 and B200).
static uint32_t ctasForNvlink(uint32_t major) {
  if (major < 9)
    return 16;
  return major == 9 ? 13 : 23;
}

/// By the same figures, more than an adapter of 400 Gbit/s needs.
constexpr uint32_t ctasForNetwork = 4;

CtaLimits limitCtas(uint32_t multiprocessors, uint32_t major,
                    const GroupCounts &groups) {
  const uint32_t available = multiprocessors / 2;
  CtaLimits limits{ctasForNvlink(major), ctasForNetwork, 1};
  auto sum = [&] {
    return groups.within * limits.within +
           groups.betweenNodes * limits.betweenNodes +
           groups.control * limits.control;
  };
  while (sum() > available && std::max(limits.within, limits.betweenNodes) > 1)
    --(limits.within >= limits.betweenNodes ? limits.within
                                            : limits.betweenNodes);
  return limits;
}

} // namespace fcdp
