// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Streams.h"

using namespace mlir;
using namespace fcdp;

Stream fcdp::chooseStream(Operation *op) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op);
      accumulate && accumulate.getLate())
    if (Operation *producer = accumulate.getValue().getDefiningOp())
      return chooseStream(producer);
  // Over both axes, too: the network is what it waits for.
  auto isNode = [](ArrayAttr axes) { return isOver(axes, Axis::node); };
  if (auto gather = dyn_cast<AllGatherOp>(op))
    return isNode(gather.getAxes()) ? Stream::inter : Stream::intra;
  // Gathers must not queue behind a reduction, which waits for its gradients
  // and for its first step.
  if (auto reduce = dyn_cast<ReduceScatterOp>(op))
    return isNode(reduce.getAxes()) ? Stream::inter_reduce
                                    : Stream::intra_reduce;
  if (isa<CacheStoreOp>(op))
    return Stream::d2h;
  if (isa<CacheLoadOp>(op))
    return Stream::h2d;
  return Stream::compute;
}
