// SPDX-License-Identifier: Apache-2.0

#include "HostUpdateCost.h"

#include "dialects/Fcdp/StatePieces.h"

using namespace mlir;
using namespace fcdp;

double fcdp::getStateBytesEach(BucketOp bucket,
                               OptimizerAttrInterface optimizer) {
  MeshOp mesh = getMesh(bucket->getParentOfType<ModuleOp>());
  double bytes = 0;
  for (StateRole role : getUpdatedStates(bucket, optimizer))
    bytes += static_cast<double>(byteSize(getStateType(bucket, role, mesh)));
  return bytes / static_cast<double>(countShardElements(bucket));
}

Cost fcdp::costOfHostUpdate(const Cluster &cluster, BucketOp bucket,
                            OptimizerAttrInterface optimizer, double elements) {
  // It reads the gradient in f32, and reads and writes the states. Without a
  // master it also reads the shard. It writes the new one.
  constexpr double gradientBytes = 4;
  double each =
      gradientBytes + 2 * getStateBytesEach(bucket, optimizer) +
      elementBytes(bucket.getStorage()) * (bucket.getMaster() ? 1.0 : 2.0);
  double memory = cluster.getHostMemoryTime(elements * each);
  double seconds = std::max(memory, elements / cluster.host.updateRate);
  Cost cost;
  cost.resource = Resource::host;
  cost.seconds = seconds;
  cost.hostMemory = memory;
  return cost;
}
