// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/ScaledCluster.h"

using namespace fcdp;

llvm::StringRef fcdp::stringifyCostInput(CostInput input) {
  static constexpr const char *names[kNumCostInputs] = {
      "products",      "attention", "memory",           "launch",
      "issue",         "inter",     "inter_latency",    "intra",
      "intra_latency", "copies",    MessageRates::kKey, "profile"};
  return names[static_cast<unsigned>(input)];
}

static void scale(RateCurve &curve, double factor) {
  for (RateCurve::Point &point : curve.points)
    point.rate *= factor;
}

/// Gives `device` its own rates of attention if it derives them from the rates
/// of other products.
static void separateAttention(Device &device) {
  for (bool isBackward : {false, true}) {
    RateCurve &curve =
        isBackward ? device.attention.backward : device.attention.forward;
    if (!curve.empty())
      continue;
    constexpr double keys = 1;
    AttentionWork work;
    work.keys = keys;
    work.isBackward = isBackward;
    double peak = device.flops.get(RateType::f32);
    double share = 1 / device.getAttentionTime(RateType::f32, peak, work);
    curve.points = {{keys, share}};
  }
}

static void scaleProducts(Device &device, double factor) {
  separateAttention(device);
  device.computeEfficiency *= factor;
  for (MeasuredProduct &product : device.products)
    product.flops *= factor;
}

static void scaleAttention(Device &device, double factor) {
  separateAttention(device);
  scale(device.attention.forward, factor);
  scale(device.attention.backward, factor);
}

/// Scales measured collectives of one node, too.
static void scaleIntra(Cluster &cluster, double factor) {
  cluster.links[LinkId::Intra].bandwidth *= factor;
  if (cluster.host.socketBandwidth)
    *cluster.host.socketBandwidth *= factor;
  for (RankSet set : kRankSets)
    for (CollectiveKind kind : kCollectiveKinds)
      cluster.collectives.get(set).get(kind).scale(/*nodes=*/1, factor);
}

static void scaleCopies(Cluster &cluster, double factor) {
  for (LinkId copies : {LinkId::H2D, LinkId::D2H}) {
    Link &link = cluster.links[copies];
    link.bandwidth *= factor;
    link.latency /= factor;
  }
  if (cluster.host.memoryBandwidth)
    *cluster.host.memoryBandwidth *= factor;
}

static std::shared_ptr<const Profile> scaled(const Profile &profile,
                                             double factor) {
  auto changed = std::make_shared<Profile>(profile);
  for (auto &op : changed->operators)
    op.second /= factor;
  for (auto &[kind, curve] : changed->operations)
    for (Profile::Point &point : curve)
      point.seconds /= factor;
  return changed;
}

Cluster fcdp::scaled(Cluster cluster, CostInput input, double factor) {
  IssueTimes &issue = cluster.host.issue;
  switch (input) {
  case CostInput::products:
    scaleProducts(cluster.device, factor);
    break;
  case CostInput::attention:
    scaleAttention(cluster.device, factor);
    break;
  case CostInput::memory:
    cluster.device.memoryBandwidth *= factor;
    break;
  case CostInput::launch:
    cluster.device.launchLatency /= factor;
    break;
  case CostInput::issue:
    for (double *seconds :
         {&issue.op, &issue.view, &issue.transfer, &issue.step})
      *seconds /= factor;
    if (issue.copy)
      *issue.copy /= factor;
    break;
  case CostInput::inter:
    cluster.setInterBandwidth(factor * cluster.links[LinkId::Inter].bandwidth);
    break;
  case CostInput::interLatency:
    cluster.links[LinkId::Inter].latency /= factor;
    break;
  case CostInput::intra:
    scaleIntra(cluster, factor);
    break;
  case CostInput::intraLatency:
    cluster.links[LinkId::Intra].latency /= factor;
    break;
  case CostInput::copies:
    scaleCopies(cluster, factor);
    break;
  case CostInput::messages:
    cluster.messages.rate *= factor;
    break;
  case CostInput::profile:
    if (cluster.profile)
      cluster.profile = ::scaled(*cluster.profile, factor);
    break;
  }
  return cluster;
}

bool fcdp::isUsed(const Cluster &cluster, CostInput input) {
  const IssueTimes &issue = cluster.host.issue;
  switch (input) {
  case CostInput::products:
  case CostInput::attention:
  case CostInput::memory:
  case CostInput::copies:
    return true;
  case CostInput::launch:
    return cluster.device.launchLatency > 0;
  case CostInput::issue:
    return issue.op > 0 || issue.view > 0 || issue.transfer > 0 ||
           issue.step > 0 || issue.getCopy() > 0;
  case CostInput::inter:
  case CostInput::messages:
    return cluster.nodes > 1;
  case CostInput::interLatency:
    return cluster.nodes > 1 && cluster.links[LinkId::Inter].latency > 0;
  case CostInput::intra:
    return cluster.ranksPerNode > 1;
  case CostInput::intraLatency:
    return cluster.ranksPerNode > 1 && cluster.links[LinkId::Intra].latency > 0;
  case CostInput::profile:
    return cluster.profile != nullptr;
  }
  llvm_unreachable("unknown input");
}

bool fcdp::dependsOn(WorkKind kind, CostInput input) {
  switch (input) {
  case CostInput::products:
  case CostInput::attention:
    return kind == WorkKind::operators || kind == WorkKind::update;
  case CostInput::inter:
  case CostInput::interLatency:
  case CostInput::intra:
  case CostInput::intraLatency:
  case CostInput::messages:
    return kind == WorkKind::collective || kind == WorkKind::agreement;
  case CostInput::copies:
    return isOnHostMemory(kind);
  case CostInput::issue:
    return false; // it is the host that issues
  case CostInput::memory:
  case CostInput::launch:
  case CostInput::profile:
    return true;
  }
  llvm_unreachable("unknown input");
}
