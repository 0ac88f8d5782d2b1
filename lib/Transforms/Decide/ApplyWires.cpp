// SPDX-License-Identifier: Apache-2.0

#include "ApplyWires.h"

using namespace mlir;
using namespace fcdp;

void fcdp::applyWires(ModuleOp module, const WireChoice &choice,
                      const CostModel *model) {
  if (getMesh(module).getNode() == 1)
    return; // nothing is sent between nodes
  for (auto bucket : module.getOps<BucketOp>()) {
    Wire reductions = choice.getReduceWire(bucket);
    if (reductions != Wire::raw && bucket.getCollectives() != Collectives::flat)
      bucket.setReduceWire(reductions);
    if (mayGatherDeltas(bucket) &&
        choice.getGatherWire(bucket, model) == Wire::delta)
      bucket.setGatherWire(Wire::delta);
  }
}
