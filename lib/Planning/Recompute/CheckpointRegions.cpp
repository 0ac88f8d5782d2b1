// SPDX-License-Identifier: Apache-2.0

#include "Units.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"

using namespace mlir;
using namespace fcdp;

SmallVector<aten::CallOp> fcdp::findCheckpointed(func::FuncOp step) {
  Operation *end = findForwardEnd(step);
  SmallVector<aten::CallOp> found;
  for (auto call : step.getOps<aten::CallOp>()) {
    std::optional<int64_t> region = getCheckpointRegion(call);
    if (!region || !end || end->isBeforeInBlock(call))
      continue;
    // Views use no memory, and are recomputed with the values that they show.
    if (isView(call) || !findReasonToRunOnce(call).empty())
      continue;
    auto isInside = [&](Operation *user) {
      return getCheckpointRegion(user) == region;
    };
    if (!isReadOutside(call, end, isInside))
      found.push_back(call);
  }
  return found;
}
