// SPDX-License-Identifier: Apache-2.0
//
// Closed forms for the cost of transfers. They assume that all ranks take part
// at the same time in the same way, so a link is shared by all ranks of its
// domain. This code does not depend on the IR.
//
// The forms are the alpha-beta model of Hockney, with the volumes of Thakur,
// Rabenseifner and Gropp, "Optimization of Collective Communication Operations
// in MPICH" (2005): in an all-gather over p ranks, every rank receives p - 1
// parts, whatever the algorithm. Algorithms differ in their number of steps and
// in the bytes that they send out of a node.
#pragma once

#include "fcdp/Cluster/Cluster.h"

namespace fcdp {

/// The duration of a transfer, in seconds.
struct TransferCost {
  /// Seconds in which no link is busy.
  double latency = 0;
  /// Seconds of exclusive use of the link.
  double seconds = 0;

  double getTotal() const { return latency + seconds; }
};

/// Returns the cost if every rank sends `bytes` at once over a link that it
/// shares.
TransferCost costOfTransfer(const Cluster &cluster, const Link &link,
                            double bytes);

/// Returns the cost of an all-gather over one axis of `ranks` ranks, as the
/// runtime does it: each rank sends its part of `partBytes` to every other rank
/// in one step. A reduce-scatter of `ranks * partBytes` moves the same bytes
/// the other way; costOfSum gives the cost of its sum.
TransferCost costOfDirect(const Cluster &cluster, const Link &link,
                          int64_t ranks, double partBytes);

/// Returns the seconds of a collective within a node on the link between its
/// sockets, or 0 if the cluster has no bandwidth of that link. A ring passes
/// the link once in each direction, so P - 1 parts do. If each rank sends to
/// every other one, P/2 ranks send P/2 parts each, P / 4 times the whole.
double costOfSockets(const Cluster &cluster, int64_t ranks, bool isRing,
                     double partBytes);

/// Returns the cost of a collective by the cluster's tables, or none if they do
/// not cover it. `ranks` is the number of ranks in one group of `set`, and each
/// ends or begins with `partBytes`. The link counts as busy for the time of the
/// bytes at the table's highest rate. The rest of the time is latency. If the
/// bandwidth between nodes is changed, the time on the link between nodes
/// changes with it, but a flat collective is no faster than the ranks of a
/// node.
std::optional<TransferCost> costOfMeasured(const Cluster &cluster, RankSet set,
                                           CollectiveKind kind, int64_t ranks,
                                           double partBytes);

/// Returns whether, by the cluster's tables, the network limits a collective
/// over all ranks: it is slower on several nodes than on one.
bool isLimitedByNetwork(const Cluster &cluster, CollectiveKind kind,
                        double partBytes);

/// Returns the seconds to sum `ranks` received parts in memory. Each part is
/// read once and the result is written once.
double costOfSum(const Device &device, int64_t ranks, double partBytes);

/// The cost of a collective over all ranks that uses both kinds of links at the
/// same time.
struct FlatCost {
  /// Seconds in which no link is busy.
  double latency = 0;
  /// Seconds of exclusive use of each link.
  double inter = 0, intra = 0;
};

/// Returns the cost of NCCL's node-contiguous ring of G - 1 steps. In each step
/// every rank sends one part to the next rank, so G - 1 parts, or (G-1)/G of
/// the whole, leave each node. If ranks or switches have links of their own out
/// of the node, there are as many rings, and each carries an equal share of the
/// data. The latency follows NCCL's src/graph/tuning.cc: N - 1 of the steps
/// wait for another node.
FlatCost costOfFlatRing(const Cluster &cluster, double partBytes);

/// Returns the cost if each rank sends its part to all others in one step. Then
/// g (G - g) parts, or g (N-1)/N of the whole, leave each node.
FlatCost costOfFlatDirect(const Cluster &cluster, double partBytes);

} // namespace fcdp
