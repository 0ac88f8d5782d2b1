// SPDX-License-Identifier: Apache-2.0

#include "Options/ClusterOption.h"

using namespace mlir;
using namespace fcdp;

llvm::Expected<Cluster>
fcdp::getClusterOf(MeshOp mesh, const std::optional<Cluster> &described,
                   StringRef cluster, StringRef profile) {
  if (described && mesh)
    return withRanks(*described, mesh.getNode(), mesh.getLocal());
  if (described)
    return *described;
  if (mesh)
    return loadCluster(cluster, mesh.getNode(), mesh.getLocal(), profile);
  llvm::Expected<Cluster> loaded = loadCluster(cluster);
  if (!loaded || profile.empty())
    return loaded;
  return loadCluster(cluster, loaded->nodes, loaded->ranksPerNode, profile);
}
