// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CollectiveCost.h"

#include <algorithm>

using namespace fcdp;

TransferCost fcdp::costOfTransfer(const Cluster &cluster, const Link &link,
                                  double bytes) {
  if (bytes == 0)
    return {};
  return {link.latency, bytes * cluster.getSharers(link) / link.bandwidth};
}

TransferCost fcdp::costOfDirect(const Cluster &cluster, const Link &link,
                                int64_t ranks, double partBytes) {
  return costOfTransfer(cluster, link, (ranks - 1) * partBytes);
}

double fcdp::costOfSum(const Device &device, int64_t ranks, double partBytes) {
  return ranks == 1 ? 0 : device.getMemoryTime((ranks + 1) * partBytes);
}

FlatCost fcdp::costOfFlatRing(const Cluster &cluster, double partBytes) {
  int64_t steps = cluster.getWorldSize() - 1, between = cluster.nodes - 1;
  FlatCost cost;
  cost.latency = between * cluster.inter.latency +
                 (steps - between) * cluster.intra.latency;
  // The ranks of a node together send the bytes of one ring out of it.
  if (cluster.nodes > 1)
    cost.inter = costOfTransfer(cluster, cluster.inter,
                                steps * partBytes / cluster.ranksPerNode)
                     .seconds;
  if (cluster.ranksPerNode > 1)
    cost.intra =
        costOfTransfer(cluster, cluster.intra, steps * partBytes).seconds;
  return cost;
}

FlatCost fcdp::costOfFlatDirect(const Cluster &cluster, double partBytes) {
  int64_t outside = cluster.getWorldSize() - cluster.ranksPerNode;
  TransferCost inter =
      costOfTransfer(cluster, cluster.inter, outside * partBytes);
  TransferCost intra =
      costOfDirect(cluster, cluster.intra, cluster.ranksPerNode, partBytes);
  return {std::max(inter.latency, intra.latency), inter.seconds, intra.seconds};
}
