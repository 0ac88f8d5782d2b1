// SPDX-License-Identifier: Apache-2.0

#include "nccl/NcclAxes.h"
#include "nccl/CtaLimits.h"

#include <algorithm>

namespace fcdp {

static uint32_t attributeOf(const NcclAxesOptions &options,
                            cudaDeviceAttr which) {
  int value = 0;
  options.cuda->check(
      options.cuda->cudaDeviceGetAttribute(&value, which, options.device),
      "cudaDeviceGetAttribute");
  return uint32_t(value);
}

static CtaLimits limitsOf(const NcclAxesOptions &options) {
  const Mesh &mesh = options.mesh;
  // Groups of one rank have no communicator.
  const bool hasLocals = mesh.locals > 1, hasNodes = mesh.nodes > 1,
             hasPeers = mesh.size() > 1;
  const AxisGroups &local = options.localGroups, &world = options.worldGroups,
                   &node = options.nodeGroups;
  GroupCounts groups;
  groups.gathersWithin =
      (hasLocals && local.gather) + (hasPeers && world.gather);
  groups.reductionsWithin =
      (hasLocals && local.reduce) + (hasPeers && world.reduce);
  groups.betweenNodes = (hasNodes && node.gather) + (hasNodes && node.reduce);
  groups.control = options.hasAll && hasPeers;
  return limitCtas(attributeOf(options, cudaDevAttrMultiProcessorCount),
                   attributeOf(options, cudaDevAttrComputeCapabilityMajor),
                   groups);
}

/// Returns whether copy engines shall exchange chunks within a node: from
/// Hopper on, whose copies within a node pass by NVLink's switches.
static bool hasCopyEngines(const NcclAxesOptions &options) {
  return options.endsAfterFailure &&
         attributeOf(options, cudaDevAttrComputeCapabilityMajor) >= 9;
}

/// Returns the channels of a chunk to a rank on another machine. NCCL has one
/// for each adapter of up to 14 GB/s (paths.cc), which is one connection or
/// queue. One or two ranks on a machine need more of them to fill its network.
static std::optional<uint32_t> channelsPerNetPeer(const Mesh &mesh) {
  constexpr uint32_t channelsOfMachine = 4;
  if (mesh.nodes == 1 || mesh.locals > 2)
    return std::nullopt;
  return channelsOfMachine / mesh.locals;
}

static std::unique_ptr<DeviceGroup>
join(const NcclAxesOptions &options, const std::string &name,
     const std::vector<uint32_t> &worldRanks, NcclGroupOptions group) {
  uint32_t own = worldRank(options.mesh, options.place);
  group.nccl = options.nccl;
  group.cuda = options.cuda;
  group.device = options.device;
  group.worldRanks = worldRanks;
  group.rank = uint32_t(std::find(worldRanks.begin(), worldRanks.end(), own) -
                        worldRanks.begin());
  group.ids = options.ids;
  group.name = name;
  group.joinSeconds = options.joinSeconds;
  group.onBlocked = options.onBlocked;
  return makeNcclGroup(group);
}

static std::vector<uint32_t> inShardOrder(const Mesh &mesh) {
  std::vector<uint32_t> worldRanks;
  for (uint32_t local = 0; local < mesh.locals; ++local)
    for (uint32_t node = 0; node < mesh.nodes; ++node)
      worldRanks.push_back(worldRank(mesh, {node, local}));
  return worldRanks;
}

NcclAxes joinAxes(const NcclAxesOptions &options) {
  const Mesh &mesh = options.mesh;
  std::vector<uint32_t> sameLocal, sameNode;
  for (uint32_t node = 0; node < mesh.nodes; ++node)
    sameLocal.push_back(worldRank(mesh, {node, options.place.local}));
  for (uint32_t local = 0; local < mesh.locals; ++local)
    sameNode.push_back(worldRank(mesh, {options.place.node, local}));

  const CtaLimits limits = limitsOf(options);
  const bool hasEngines = hasCopyEngines(options);
  NcclAxes axes;
  auto joinAxis = [&](AxisId axis, const char *name, const AxisGroups &wanted,
                      const std::vector<uint32_t> &worldRanks) {
    auto &[gather, reduce] = axes[size_t(axis)];
    const bool isBetween = axis == AxisId::Node;
    NcclGroupOptions group;
    group.mostCtas = isBetween ? limits.betweenNodes : limits.gathersWithin;
    if (wanted.gather)
      gather = join(options, std::string(name) + "-gather", worldRanks, group);
    if (!isBetween)
      group.mostCtas = limits.reductionsWithin;
    if (axis == AxisId::Local || mesh.nodes == 1)
      group.exchangesByCopyEngines = hasEngines;
    else
      group.channelsPerNetPeer = channelsPerNetPeer(mesh);
    if (wanted.reduce)
      reduce = join(options, std::string(name) + "-reduce", worldRanks, group);
  };
  joinAxis(AxisId::Node, "node", options.nodeGroups, sameLocal);
  joinAxis(AxisId::Local, "local", options.localGroups, sameNode);
  joinAxis(AxisId::World, "world", options.worldGroups, inShardOrder(mesh));
  return axes;
}

uint32_t findMostCtas(const NcclAxesOptions &options) {
  const CtaLimits limits = limitsOf(options);
  return std::max(
      {limits.gathersWithin, limits.reductionsWithin, limits.betweenNodes});
}

std::unique_ptr<DeviceGroup> joinAll(const NcclAxesOptions &options) {
  NcclGroupOptions control;
  control.mostCtas = limitsOf(options).control;
  return join(options, "all", inShardOrder(options.mesh), control);
}

} // namespace fcdp
