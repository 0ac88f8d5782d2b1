// SPDX-License-Identifier: Apache-2.0
//
// Closed forms for what moves data. All ranks take part at once and alike, so
// that a link is shared as far as it can be. Knows no IR.
//
// Alpha-beta model of Hockney, with the volumes of Thakur, Rabenseifner and
// Gropp, "Optimization of Collective Communication Operations in MPICH" (2005):
// whatever the algorithm, of an all-gather over p ranks each receives p - 1
// parts. Algorithms differ in their number of steps, and in what they put on
// the link that leaves a node.
#pragma once

#include "fcdp/Cluster/Cluster.h"

namespace fcdp {

/// What a transfer takes, in seconds.
struct TransferCost {
  /// When no link is busy.
  double latency = 0;
  /// Of exclusive use of the link.
  double seconds = 0;

  double getTotal() const { return latency + seconds; }
};

/// Every rank sends `bytes` at once, on a link that it shares.
TransferCost costOfTransfer(const Cluster &cluster, const Link &link,
                            double bytes);

/// All-gather over one axis of `ranks` ranks, as the runtime does it: each rank
/// sends its part of `partBytes` to each of the others, in one step. A
/// reduce-scatter of `ranks * partBytes` moves the same the other way; its sum
/// is costOfSum.
TransferCost costOfDirect(const Cluster &cluster, const Link &link,
                          int64_t ranks, double partBytes);

/// The sum of `ranks` received parts in memory, in seconds: each is read once
/// and the result written once.
double costOfSum(const Device &device, int64_t ranks, double partBytes);

/// A collective over all ranks, on both kinds of links at the same time.
struct FlatCost {
  /// Seconds when no link is busy.
  double latency = 0;
  /// Seconds of exclusive use of either link.
  double inter = 0, intra = 0;

  double getTotal() const;
};

/// Node-contiguous ring of G - 1 steps, as NCCL makes them: in each step every
/// rank hands a part to the next, so that G - 1 parts leave each node, (G-1)/G
/// of the whole. Where ranks or switches have links of their own out of the
/// node there are as many rings, each with its share of the data. Latency as in
/// NCCL's src/graph/tuning.cc: N - 1 steps wait for another node.
FlatCost costOfFlatRing(const Cluster &cluster, double partBytes);

/// Each rank sends its part to all others in one step: g (G - g) parts leave
/// each node, g (N-1)/N of the whole.
FlatCost costOfFlatDirect(const Cluster &cluster, double partBytes);

/// Between nodes, then within them: g (N - 1) parts leave each node, (N-1)/N of
/// the whole. The steps follow each other.
struct TwoLevelCost {
  TransferCost inter, intra;

  double getTotal() const { return inter.getTotal() + intra.getTotal(); }
};
TwoLevelCost costOfTwoLevel(const Cluster &cluster, double partBytes);

} // namespace fcdp
