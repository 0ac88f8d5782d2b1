// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/WorkKind.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/OpList.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Has an overload for each operation that takes time.
struct KindOf {
  WorkKind operator()(CollectiveOpInterface) const {
    return WorkKind::collective;
  }
  WorkKind operator()(CacheStoreOp) const { return WorkKind::copy; }
  WorkKind operator()(CacheLoadOp) const { return WorkKind::copy; }
  WorkKind operator()(CastShardOp) const { return WorkKind::memory; }
  WorkKind operator()(PackOp) const { return WorkKind::memory; }
  WorkKind operator()(AccumulateOp) const { return WorkKind::memory; }
  WorkKind operator()(AddOp) const { return WorkKind::memory; }
  WorkKind operator()(WriteBufferOp) const { return WorkKind::memory; }
  WorkKind operator()(ShardUpdateOp) const { return WorkKind::update; }
  WorkKind operator()(UnscaleGradientsOp) const { return WorkKind::agreement; }
  WorkKind operator()(ClipGradientsOp) const { return WorkKind::agreement; }
  WorkKind operator()(OuterDifferenceOp) const { return WorkKind::outerUpdate; }
  WorkKind operator()(OuterUpdateOp) const { return WorkKind::outerUpdate; }
};
} // namespace

WorkKind fcdp::getWorkKind(Operation *op) {
  if (isa<aten::CallOp>(op))
    return WorkKind::operators;
  WorkKind kind = WorkKind::none;
  FcdpOps::visit<TakesTime>(op, [&](auto typed) { kind = KindOf()(typed); });
  return kind;
}

bool fcdp::isOnHostMemory(WorkKind kind) {
  return kind == WorkKind::copy || kind == WorkKind::outerUpdate;
}

bool fcdp::isOfOptimizer(WorkKind kind) {
  return kind == WorkKind::update || kind == WorkKind::agreement ||
         kind == WorkKind::outerUpdate;
}
