// SPDX-License-Identifier: Apache-2.0

#include "MeasuredCost.h"

using namespace fcdp;

Cost fcdp::withTotal(Cost estimate, double seconds) {
  double latency = std::min(estimate.latency, seconds);
  return {estimate.resource,   latency, seconds - latency, 0, 0,
          estimate.processors, 0};
}

Cost fcdp::measure(const Cluster &cluster, llvm::StringRef kind, double bytes,
                   llvm::function_ref<Cost(double)> estimate) {
  Cost estimated = estimate(bytes);
  if (!cluster.profile)
    return estimated;
  auto found = cluster.profile->operations.find(kind.str());
  if (found == cluster.profile->operations.end())
    return estimated;
  return withTotal(estimated,
                   readCurve(found->second, bytes, [&](double other) {
                     return estimate(other).getTotal();
                   }));
}

Cost fcdp::measureOver(const Cluster &cluster, llvm::StringRef kind,
                       llvm::StringRef axis, double bytes,
                       llvm::function_ref<Cost(double)> estimate) {
  const Profile *profile = cluster.profile.get();
  bool isMeasured = profile && profile->nodes == cluster.nodes &&
                    profile->ranksPerNode == cluster.ranksPerNode;
  Cost cost = isMeasured
                  ? measure(cluster, (kind + " " + axis).str(), bytes, estimate)
                  : estimate(bytes);
  if (isMeasured && (kind == "all_gather" || kind == "reduce_scatter"))
    cost.seconds = std::max(cost.seconds, estimate(bytes).seconds);
  // A profile's compute times already include the processors that collectives
  // occupied.
  if (!profile) {
    const Link &link =
        cluster.links[cost.resource == Resource::inter ? LinkId::Inter
                                                       : LinkId::Intra];
    cost.processors =
        link.collectiveShare.value_or(cluster.device.collectiveShare);
  }
  return cost;
}
