// SPDX-License-Identifier: Apache-2.0
#include "state/CommonPart.h"

#include "policy/NodeMean.h"

#include <algorithm>

namespace fcdp {

namespace {

constexpr const char *kMean = "mean of the nodes' parameters";

/// Exchanges a rank's values with the ranks of other nodes that have the same
/// part.
void exchangeOverNodes(const Mesh &mesh, Job &job,
                       std::span<const std::byte> own,
                       std::span<std::byte> all) {
  const Place place = placeOf(mesh, job.rank());
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    if (node == place.node)
      continue;
    uint32_t peer = worldRank(mesh, {node, place.local});
    sends.push_back({peer, own.data(), own.size()});
    recvs.push_back({peer, all.data() + node * own.size(), own.size()});
  }
  job.control().exchange(sends, recvs, kMean);
  std::copy(own.begin(), own.end(),
            all.begin() + ptrdiff_t(place.node * own.size()));
}

} // namespace

CommonPart::CommonPart(const StepPlan &plan, Job &job, Step &step,
                       const plan::BucketT &bucket, plan::StateRole role,
                       const plan::Buf &buf)
    : part(step.region(buf)) {
  bool isValue =
      role == plan::StateRole::shard || role == plan::StateRole::master;
  if (!isValue || !isTrainedByNodes(bucket))
    return;
  mean.resize(part.size());
  DType dtype = toDType(findState(bucket, role)->dtype());
  writeNodeMean(plan.mesh.nodes, dtype, part, mean.data(),
                [&](std::span<const std::byte> own, std::span<std::byte> all) {
                  exchangeOverNodes(plan.mesh, job, own, all);
                });
  part = mean;
}

} // namespace fcdp
