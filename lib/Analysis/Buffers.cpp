// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Buffers.h"

using namespace mlir;
using namespace fcdp;

llvm::MapVector<StringAttr, StateOp>
fcdp::collectAccumulators(ModuleOp module) {
  llvm::MapVector<StringAttr, StateOp> accumulators;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getRole() == StateRole::grad)
      accumulators[state.getBucketAttr().getAttr()] = state;
    else if (getRecord(state.getRole()).kind == StateKind::sum &&
             state.getArena() == Arena::device)
      accumulators[state.getSymNameAttr()] = state;
  }
  return accumulators;
}

Operation *fcdp::getScratchOwner(BufferedOpInterface op) {
  Operation *input = op->getOperand(0).getDefiningOp();
  return isBuffered(input) ? input : op;
}

void fcdp::addStrides(CollectiveOpInterface gather, int64_t &nodeStride,
                      int64_t &localStride) {
  int64_t part = byteSize(cast<RankedTensorType>(gather.getInput().getType()));
  if (gather.isOverAxis(Axis::node))
    nodeStride = part;
  if (!gather.isOverAxis(Axis::local))
    return;
  // Over both axes, rank (n, l) owns shard l N + n.
  MeshOp mesh = getMesh(gather->getParentOfType<ModuleOp>());
  localStride = gather.isOverAxis(Axis::node) ? mesh.getNode() * part : part;
}
