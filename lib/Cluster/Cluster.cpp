// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/Cluster.h"

#include "fcdp/Cluster/ProfileProducts.h"
#include "fcdp/Support/InputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace fcdp;

static constexpr ClusterPreset kPresets[] = {
#include "Presets.inc"
};

llvm::ArrayRef<ClusterPreset> fcdp::getClusterPresets() { return kPresets; }

void Cluster::setInterBandwidth(double bandwidth) {
  double &now = links[LinkId::Inter].bandwidth;
  collectives.interScale *= bandwidth / now;
  now = bandwidth;
}

int64_t Cluster::getSharers(const Link &link) const {
  switch (link.sharing) {
  case Sharing::rank:
    return 1;
  case Sharing::switched:
    return std::min(link.ranksPerSwitch, ranksPerNode);
  case Sharing::node:
    return ranksPerNode;
  }
  llvm_unreachable("unknown sharing");
}

double Cluster::getHostMemoryTime(double bytes) const {
  if (!host.memoryBandwidth)
    return 0;
  double ranks = llvm::divideCeil(ranksPerNode, host.numaNodes);
  return ranks * bytes / (*host.memoryBandwidth / host.numaNodes);
}

void Cluster::setProfile(std::shared_ptr<const Profile> measured) {
  profile = std::move(measured);
  // The profile's products were measured on this device. The products of the
  // description may be from another one.
  if (auto products = collectProducts(*profile); !products.empty())
    device.products = std::move(products);
}

static llvm::Error checkPositive(llvm::StringRef name, double value) {
  if (std::isfinite(value) && value > 0)
    return llvm::Error::success();
  return llvm::createStringError(llvm::formatv(
      "expected '{0}' to be positive and finite, got {1}", name, value));
}

static llvm::Error checkLink(const Cluster &cluster, llvm::StringRef name,
                             const Link &link) {
  if (llvm::Error error =
          checkPositive((name + ".bandwidth").str(), link.bandwidth))
    return error;
  if (!std::isfinite(link.latency) || link.latency < 0)
    return llvm::createStringError(llvm::formatv(
        "expected '{0}.latency' to be 0 or more, got {1}", name, link.latency));
  if (link.sharing == Sharing::switched &&
      (link.ranksPerSwitch <= 0 ||
       (link.ranksPerSwitch < cluster.ranksPerNode &&
        cluster.ranksPerNode % link.ranksPerSwitch != 0)))
    return llvm::createStringError(llvm::formatv(
        "expected '{0}.ranks_per_switch' to divide the {1} ranks of a node, "
        "got {2}",
        name, cluster.ranksPerNode, link.ranksPerSwitch));
  return llvm::Error::success();
}

static llvm::Error checkMessages(const MessageRates &rates) {
  for (auto [key, value, isBits] : MessageRates::getFigures()) {
    std::string name = (llvm::Twine(MessageRates::kKey) + "." + key).str();
    if (llvm::Error error = checkPositive(name, rates.*value))
      return error;
    if (isBits && rates.*value > 16)
      return llvm::createStringError(llvm::formatv(
          "expected '{0}' to be at most 16, got {1}", name, rates.*value));
  }
  return llvm::Error::success();
}

llvm::Error Cluster::check() const {
  // MPI and NCCL count ranks with 31 bits.
  if (nodes <= 0 || ranksPerNode <= 0 ||
      nodes > std::numeric_limits<int32_t>::max() / ranksPerNode)
    return llvm::createStringError(
        llvm::formatv("expected nodes and ranks per node to be positive, and "
                      "below 2^31 ranks in all, got {0} and {1}",
                      nodes, ranksPerNode));
  for (auto [field, value] :
       std::initializer_list<std::pair<llvm::StringRef, double>>{
           {"device.memory", device.memory},
           {"device.memory_bandwidth", device.memoryBandwidth},
           {"device.flops.f64", device.flops.f64},
           {"device.flops.f32", device.flops.f32},
           {"device.flops.bf16", device.flops.bf16},
           {"device.flops.f16", device.flops.f16},
           {"device.compute_efficiency", device.computeEfficiency},
           {"device.memory_efficiency", device.memoryEfficiency},
           {"host.memory", host.memory},
           {"host.memory_bandwidth", host.memoryBandwidth.value_or(1)},
           {"host.numa_nodes", host.numaNodes},
           {"host.socket_bandwidth", host.socketBandwidth.value_or(1)},
           {"host.file_bandwidth", host.fileBandwidth},
           {"host.update_rate", host.updateRate}})
    if (llvm::Error error = checkPositive(field, value))
      return error;
  if (host.socketBandwidth && host.numaNodes != 2)
    return llvm::createStringError(
        llvm::formatv("expected 'host.numa_nodes' to be 2 for "
                      "'host.socket_bandwidth', got {0}",
                      host.numaNodes));
  for (auto [field, share] :
       {std::pair("compute_efficiency", device.computeEfficiency),
        std::pair("memory_efficiency", device.memoryEfficiency)})
    if (share > 1)
      return llvm::createStringError(llvm::formatv(
          "expected 'device.{0}' to be at most 1, got {1}", field, share));
  if (llvm::Error error = checkMessages(messages))
    return error;
  if (!std::isfinite(device.launchLatency) || device.launchLatency < 0)
    return llvm::createStringError(
        llvm::formatv("expected 'device.launch_latency' to be 0 or more, got "
                      "{0}",
                      device.launchLatency));
  for (LinkId link : kLinks)
    if (llvm::Error error = checkLink(*this, kLinkNames[link], links[link]))
      return error;
  return llvm::Error::success();
}

std::string fcdp::listClusterPresets() {
  return llvm::join(llvm::map_range(getClusterPresets(),
                                    [](const ClusterPreset &preset) {
                                      return preset.name.str();
                                    }),
                    ", ");
}

llvm::Expected<Cluster> fcdp::loadCluster(llvm::StringRef fileOrPreset) {
  for (const ClusterPreset &preset : getClusterPresets())
    if (preset.name == fileOrPreset)
      return parseCluster({preset.yaml, preset.name});
  auto file = readInputFile(fileOrPreset);
  if (!file)
    return llvm::createStringError(
        "expected a file or one of " + listClusterPresets() + ", got '" +
        fileOrPreset + "': " + toString(file.takeError()));
  return parseCluster((*file)->getMemBufferRef());
}

llvm::Expected<Cluster> fcdp::loadCluster(llvm::StringRef fileOrPreset,
                                          int64_t nodes, int64_t ranksPerNode,
                                          llvm::StringRef profile) {
  llvm::Expected<Cluster> cluster = loadCluster(fileOrPreset);
  if (!cluster)
    return cluster;
  if (!profile.empty()) {
    auto measured = loadProfile(profile);
    if (!measured)
      return measured.takeError();
    cluster->setProfile(std::move(*measured));
  }
  return withRanks(std::move(*cluster), nodes, ranksPerNode);
}

llvm::Expected<Cluster> fcdp::withRanks(Cluster cluster, int64_t nodes,
                                        int64_t ranksPerNode) {
  cluster.nodes = nodes;
  cluster.ranksPerNode = ranksPerNode;
  if (llvm::Error error = cluster.check())
    return llvm::createStringError(
        llvm::formatv("'{0}' with {1} nodes of {2} ranks: {3}", cluster.name,
                      nodes, ranksPerNode, toString(std::move(error))));
  return cluster;
}
