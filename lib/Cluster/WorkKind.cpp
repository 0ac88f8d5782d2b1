// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/WorkKind.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/OpList.h"

using namespace mlir;
using namespace fcdp;

WorkKind fcdp::getWorkKind(Operation *op) {
  if (isa<aten::CallOp>(op))
    return WorkKind::operators;
  WorkKind kind = WorkKind::none;
  FcdpOps::visit<TakesTime>(
      op, [&](auto typed) { kind = decltype(typed)::getWorkKind(); });
  return kind;
}

bool fcdp::isOnHostMemory(WorkKind kind) {
  return kind == WorkKind::copy || kind == WorkKind::hostUpdate;
}

bool fcdp::isOfOptimizer(WorkKind kind) {
  return kind == WorkKind::update || kind == WorkKind::agreement ||
         kind == WorkKind::hostUpdate;
}
