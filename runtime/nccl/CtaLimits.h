// SPDX-License-Identifier: Apache-2.0
//
// Limits the thread blocks of collectives.
//
// A kernel of NCCL waits for the kernels of its peers, and keeps its thread
// blocks on multiprocessors in the meantime. If the kernels of two
// communicators start in different orders on two ranks, and a device has room
// for only one of them, neither ends. So all communicators together get fewer
// thread blocks than the device has multiprocessors.
#pragma once

#include "job/Job.h"

#include <cstdint>

namespace fcdp {

/// The most thread blocks of a collective, by kind of communicator.
struct CtaLimits {
  /// The limits of gathers within a node, over NVLink or PCIe, and over all
  /// ranks.
  uint32_t gathersWithin = 1;
  /// The limit of reductions within a node. It is a power of two, because NCCL
  /// rounds channels of sends up to one.
  uint32_t reductionsWithin = 1;
  /// The limit between nodes, a power of two.
  uint32_t betweenNodes = 1;
  /// The limit of control messages, which are single numbers.
  uint32_t control = 1;
};

/// The communicators of a rank, by kind.
struct GroupCounts {
  uint32_t gathersWithin = 0, reductionsWithin = 0, betweenNodes = 0,
           control = 0;
};

/// Returns limits whose sum over the communicators is at most half of the
/// device's multiprocessors, so that operators keep running. If the device is
/// too small for that, all limits are 1. `major` is the major number of the
/// compute capability.
CtaLimits limitCtas(uint32_t multiprocessors, uint32_t major,
                    const GroupCounts &groups);

} // namespace fcdp
