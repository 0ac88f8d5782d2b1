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

double fcdp::costOfSockets(const Cluster &cluster, int64_t ranks, bool isRing,
                           double partBytes) {
  if (!cluster.host.socketBandwidth || ranks == 1)
    return 0;
  double parts = isRing ? ranks - 1 : (ranks / 2) * (ranks - ranks / 2);
  return parts * partBytes / *cluster.host.socketBandwidth;
}

/// Returns the highest bus bandwidth within a node.
static double getPeakWithinNode(const Cluster &cluster, CollectiveKind kind,
                                double bytes) {
  if (auto local = cluster.collectives.read(RankSet::local, kind, bytes, 1))
    return local->peak;
  const Link &link = cluster.links[LinkId::Intra];
  return link.bandwidth / cluster.getSharers(link);
}

static std::optional<BusBandwidth> readTables(const Cluster &cluster,
                                              RankSet set, CollectiveKind kind,
                                              double bytes) {
  const CollectiveTables &tables = cluster.collectives;
  if (tables.ranksPerNode != cluster.ranksPerNode)
    return std::nullopt;
  return tables.read(set, kind, bytes,
                     set == RankSet::local ? 1 : cluster.nodes);
}

/// Returns the seconds of the link with the changed bandwidth between nodes.
static double scaleInter(const Cluster &cluster, RankSet set,
                         CollectiveKind kind, double volume, double bytes,
                         double seconds) {
  double scaled = seconds / cluster.collectives.interScale;
  if (set == RankSet::node)
    return scaled;
  double within = volume / getPeakWithinNode(cluster, kind, bytes);
  return std::max(scaled, std::min(seconds, within));
}

std::optional<TransferCost>
fcdp::costOfMeasured(const Cluster &cluster, RankSet set, CollectiveKind kind,
                     int64_t ranks, double partBytes) {
  double bytes = ranks * partBytes, volume = (ranks - 1) * partBytes;
  auto found = readTables(cluster, set, kind, bytes);
  if (!found || ranks == 1)
    return std::nullopt;
  double total = volume / found->rate, seconds = volume / found->peak;
  TransferCost cost{total - seconds, seconds};
  if (set != RankSet::local && cluster.nodes > 1)
    cost.seconds = scaleInter(cluster, set, kind, volume, bytes, seconds);
  return cost;
}

bool fcdp::isLimitedByNetwork(const Cluster &cluster, CollectiveKind kind,
                              double partBytes) {
  double bytes = cluster.getWorldSize() * partBytes;
  auto found = readTables(cluster, RankSet::world, kind, bytes);
  return found && cluster.nodes > 1 &&
         found->peak * cluster.collectives.interScale <
             getPeakWithinNode(cluster, kind, bytes);
}

double fcdp::costOfSum(const Device &device, int64_t ranks, double partBytes) {
  return ranks == 1 ? 0 : device.getMemoryTime((ranks + 1) * partBytes);
}

FlatCost fcdp::costOfFlatRing(const Cluster &cluster, double partBytes) {
  int64_t steps = cluster.getWorldSize() - 1, between = cluster.nodes - 1;
  const Link &inter = cluster.links[LinkId::Inter];
  const Link &intra = cluster.links[LinkId::Intra];
  FlatCost cost;
  cost.latency = between * inter.latency + (steps - between) * intra.latency;
  // All ranks of a node together send the bytes of one ring out of the node.
  if (cluster.nodes > 1)
    cost.inter =
        costOfTransfer(cluster, inter, steps * partBytes / cluster.ranksPerNode)
            .seconds;
  if (cluster.ranksPerNode > 1)
    cost.intra =
        std::max(costOfTransfer(cluster, intra, steps * partBytes).seconds,
                 costOfSockets(cluster, cluster.getWorldSize(), /*isRing=*/true,
                               partBytes));
  return cost;
}

FlatCost fcdp::costOfFlatDirect(const Cluster &cluster, double partBytes) {
  int64_t outside = cluster.getWorldSize() - cluster.ranksPerNode;
  TransferCost inter = costOfTransfer(cluster, cluster.links[LinkId::Inter],
                                      outside * partBytes);
  TransferCost intra = costOfDirect(cluster, cluster.links[LinkId::Intra],
                                    cluster.ranksPerNode, partBytes);
  double sockets = costOfSockets(cluster, cluster.ranksPerNode,
                                 /*isRing=*/false, partBytes);
  return {std::max(inter.latency, intra.latency), inter.seconds,
          std::max(intra.seconds, sockets)};
}
