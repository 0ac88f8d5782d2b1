// SPDX-License-Identifier: Apache-2.0

#include "nccl/NcclAxes.h"
#include "nccl/CtaLimits.h"

#include <algorithm>

namespace fcdp {

static CtaLimits limitsOf(const NcclAxesOptions &options) {
  const Mesh &mesh = options.mesh;
  auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    options.cuda->check(
        options.cuda->cudaDeviceGetAttribute(&value, which, options.device),
        "cudaDeviceGetAttribute");
    return uint32_t(value);
  };
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
  return limitCtas(attribute(cudaDevAttrMultiProcessorCount),
                   attribute(cudaDevAttrComputeCapabilityMajor), groups);
}

static std::unique_ptr<DeviceGroup>
join(const NcclAxesOptions &options, const std::string &name,
     const std::vector<uint32_t> &worldRanks, uint32_t mostCtas) {
  uint32_t own = worldRank(options.mesh, options.place);
  NcclGroupOptions group;
  group.nccl = options.nccl;
  group.cuda = options.cuda;
  group.device = options.device;
  group.worldRanks = worldRanks;
  group.rank = uint32_t(std::find(worldRanks.begin(), worldRanks.end(), own) -
                        worldRanks.begin());
  group.ids = options.ids;
  group.name = name;
  group.mostCtas = mostCtas;
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
  NcclAxes axes;
  auto joinAxis = [&](AxisId axis, const char *name, const AxisGroups &wanted,
                      const std::vector<uint32_t> &worldRanks) {
    auto &[gather, reduce] = axes[size_t(axis)];
    bool isBetween = axis == AxisId::Node;
    if (wanted.gather)
      gather = join(options, std::string(name) + "-gather", worldRanks,
                    isBetween ? limits.betweenNodes : limits.gathersWithin);
    if (wanted.reduce)
      reduce = join(options, std::string(name) + "-reduce", worldRanks,
                    isBetween ? limits.betweenNodes : limits.reductionsWithin);
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
  return join(options, "all", inShardOrder(options.mesh),
              limitsOf(options).control);
}

} // namespace fcdp
