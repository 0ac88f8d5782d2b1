// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Buffers.h"

using namespace mlir;
using namespace fcdp;

bool fcdp::isBuffered(Operation *op) {
  return isa_and_present<AddOp, AllGatherOp, CacheLoadOp, CastShardOp, PackOp,
                         ReduceScatterOp>(op);
}

llvm::DenseMap<StringAttr, StateOp> fcdp::collectAccumulators(ModuleOp module) {
  llvm::DenseMap<StringAttr, StateOp> accumulators;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getRole() == StateRole::grad)
      accumulators[state.getBucketAttr().getAttr()] = state;
    else if (state.getRole() == StateRole::node_grad ||
             state.getRole() == StateRole::full_grad)
      accumulators[state.getSymNameAttr()] = state;
  }
  return accumulators;
}

Operation *fcdp::getScratchOwner(ReduceScatterOp reduce) {
  Operation *input = reduce.getInput().getDefiningOp();
  return isBuffered(input) ? input : reduce;
}

void fcdp::addStrides(AllGatherOp gather, int64_t &nodeStride,
                      int64_t &localStride) {
  int64_t part = byteSize(cast<RankedTensorType>(gather.getInput().getType()));
  if (isOver(gather.getAxes(), Axis::node))
    nodeStride = part;
  if (!isOver(gather.getAxes(), Axis::local))
    return;
  // Over both, rank (n, l) owns shard l N + n.
  MeshOp mesh = getMesh(gather->getParentOfType<ModuleOp>());
  localStride =
      isOver(gather.getAxes(), Axis::node) ? mesh.getNode() * part : part;
}
