// SPDX-License-Identifier: Apache-2.0

#include "ApplyPlan.h"

#include "fcdp/Planning/Layout/JoinBuckets.h"
#include "fcdp/Planning/Layout/ShardStates.h"
#include "fcdp/Transforms/Options/Strategy.h"

using namespace mlir;
using namespace fcdp;

LogicalResult fcdp::applyPlan(ModuleOp module, const StepDecisions &plan) {
  if (llvm::Error error = joinBuckets(module, plan.bucketBytes))
    return module.emitError() << toString(std::move(error));
  if (plan.bucketBytes != 0)
    setBucketBytes(module, plan.bucketBytes);
  shardStates(module, plan.sharding);
  for (auto [bucket, chosen] :
       llvm::zip_equal(module.getOps<BucketOp>(), plan.residency.buckets))
    applyStrategy(bucket, {chosen.residency, chosen.carry, plan.accumulation,
                           bucket.getSharding(), chosen.collectives});
  if (plan.prefetch && !getPrefetch(module))
    setPrefetch(module, *plan.prefetch);
  if (plan.reductions && !getReductions(module))
    setReductions(module, *plan.reductions);
  return success();
}
