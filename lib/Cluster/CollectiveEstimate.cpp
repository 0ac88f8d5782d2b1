// SPDX-License-Identifier: Apache-2.0

#include "CollectiveEstimate.h"

#include "fcdp/Cluster/CollectiveCost.h"
#include "llvm/ADT/STLFunctionalExtras.h"

using namespace fcdp;

/// Returns the seconds of device memory traffic of an exchange: sent bytes are
/// read and received bytes are written.
static double timeOfExchange(const Device &device, int64_t ranks,
                             double partBytes) {
  return device.getMemoryTime(2 * (ranks - 1) * partBytes);
}

static Cost estimateLink(const Cluster &cluster, Axis axis, int64_t ranks,
                         double partBytes) {
  bool isNode = axis == Axis::node;
  TransferCost transfer = costOfDirect(
      cluster, cluster.links[isNode ? LinkId::Inter : LinkId::Intra], ranks,
      partBytes);
  return {isNode ? Resource::inter : Resource::intra, transfer.latency,
          transfer.seconds, timeOfExchange(cluster.device, ranks, partBytes)};
}

/// Estimates a gather or the transfers of a reduction within a node, including
/// the link between its sockets.
static Cost estimateWithin(const Cluster &cluster, CollectiveKind kind,
                           int64_t ranks, double partBytes) {
  bool isRing = kind == CollectiveKind::reduceScatter
                    ? cluster.localReductions == LocalReductions::ring
                    : cluster.flatCollectives == FlatCollectives::ring;
  Cost cost = estimateLink(cluster, Axis::local, ranks, partBytes);
  cost.seconds =
      std::max(cost.seconds, costOfSockets(cluster, ranks, isRing, partBytes));
  return cost;
}

static Cost estimateFlatLinks(const Cluster &cluster, double partBytes) {
  FlatCost flat = cluster.flatCollectives == FlatCollectives::ring
                      ? costOfFlatRing(cluster, partBytes)
                      : costOfFlatDirect(cluster, partBytes);
  double memory =
      timeOfExchange(cluster.device, cluster.getWorldSize(), partBytes);
  if (flat.inter >= flat.intra)
    return {Resource::inter, flat.latency, flat.inter, memory};
  return {Resource::intra, flat.latency, flat.intra, memory};
}

Cost fcdp::withSum(Cost gather, const Device &device, int64_t ranks,
                   double partBytes) {
  double sum = costOfSum(device, ranks, partBytes);
  gather.latency += sum;
  gather.deviceMemory += sum;
  return gather;
}

/// Estimates a collective in one step over `set`. If the tables of measured
/// collectives have it, they determine its time, which for a reduction includes
/// the sum. Otherwise `byLinks` gives the cost of a gather.
static Cost estimateCollective(const Cluster &cluster, RankSet set,
                               CollectiveKind kind, int64_t ranks,
                               double partBytes, Resource resource,
                               llvm::function_ref<Cost()> byLinks) {
  bool isSum = kind == CollectiveKind::reduceScatter;
  // The ranks of a ring add while they receive.
  bool sumsAfterwards =
      isSum && !(set == RankSet::local &&
                 cluster.localReductions == LocalReductions::ring);
  auto measured = costOfMeasured(cluster, set, kind, ranks, partBytes);
  if (!measured)
    return sumsAfterwards ? withSum(byLinks(), cluster.device, ranks, partBytes)
                          : byLinks();
  double memory = timeOfExchange(cluster.device, ranks, partBytes);
  if (isSum)
    memory += costOfSum(cluster.device, ranks, partBytes);
  return {resource, measured->latency, measured->seconds, memory};
}

Cost fcdp::estimateOverAxis(const Cluster &cluster, Axis axis,
                            CollectiveKind kind, int64_t ranks,
                            double partBytes) {
  bool isNode = axis == Axis::node;
  return estimateCollective(
      cluster, isNode ? RankSet::node : RankSet::local, kind, ranks, partBytes,
      isNode ? Resource::inter : Resource::intra, [&] {
        return isNode ? estimateLink(cluster, axis, ranks, partBytes)
                      : estimateWithin(cluster, kind, ranks, partBytes);
      });
}

Cost fcdp::estimateFlat(const Cluster &cluster, CollectiveKind kind,
                        double partBytes) {
  Resource resource = isLimitedByNetwork(cluster, kind, partBytes)
                          ? Resource::inter
                          : Resource::intra;
  return estimateCollective(
      cluster, RankSet::world, kind, cluster.getWorldSize(), partBytes,
      resource, [&] { return estimateFlatLinks(cluster, partBytes); });
}
