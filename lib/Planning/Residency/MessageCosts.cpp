// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/MessageCosts.h"

using namespace mlir;
using namespace fcdp;

std::optional<Cost>
MessageCosts::costOfReferringGather(BucketOp bucket, double partBytes,
                                    const CostModel &model) const {
  return std::nullopt;
}

Cost MessageCosts::costOfReduction(BucketOp bucket, Type element,
                                   double partBytes,
                                   const CostModel &model) const {
  MeshOp mesh = getMesh(bucket->getParentOfType<ModuleOp>());
  return model.costOfReduction(Axis::node, mesh.getNode(), partBytes);
}
