// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Layout/JoinBuckets.h"

#include "fcdp/Planning/Layout/BucketBuilding.h"
#include "fcdp/Planning/SearchConstants.h"

using namespace mlir;
using namespace fcdp;

static bool isOverBothAxes(ArrayAttr axes) { return axes.size() == 2; }

/// Returns whether the gather reads this rank's shard and has only views of
/// members as its readers.
static bool isAsBuilt(AllGatherOp gather) {
  Operation *input = gather.getInput().getDefiningOp();
  if (auto cast = dyn_cast_or_null<CastShardOp>(input))
    input = cast.getInput().getDefiningOp();
  return isa_and_present<ReadShardOp>(input) &&
         isOverBothAxes(gather.getAxes()) &&
         llvm::all_of(gather->getUsers(), llvm::IsaPred<ViewMemberOp>);
}

/// Returns whether the reduction consumes a pack and feeds an accumulate
/// directly.
static bool isAsBuilt(ReduceScatterOp reduce) {
  auto pack = reduce.getInput().getDefiningOp<PackOp>();
  return pack && pack->hasOneUse() && isOverBothAxes(reduce.getAxes()) &&
         reduce->hasOneUse() && isa<AccumulateOp>(*reduce->user_begin());
}

bool fcdp::canJoinBuckets(ModuleOp module) {
  if (!isMergingOpen(module) || module.getOps<BucketOp>().empty())
    return false;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto isBuilt = [](auto op) { return isAsBuilt(op); };
    if (!llvm::all_of(function.getOps<AllGatherOp>(), isBuilt) ||
        !llvm::all_of(function.getOps<ReduceScatterOp>(), isBuilt))
      return false;
  }
  return llvm::all_of(module.getOps<BucketOp>(), [&](BucketOp bucket) {
    return bucket.getSharding() == Sharding::world;
  });
}

/// Returns the seconds that one bucket fewer may save: the latencies of its
/// collectives and of the small operators around them, in each micro-batch.
static double boundSaving(const Cluster &cluster, int64_t microBatches) {
  double latency = 0;
  for (const Link &link : cluster.links.values)
    latency += link.latency;
  latency += kSearch.operatorsPerCollective * cluster.device.launchLatency;
  return static_cast<double>(microBatches) * kSearch.collectivesPerBucket *
         latency;
}

SmallVector<int64_t> fcdp::findJoinLimits(ModuleOp module,
                                          const CostModel &model, int64_t most,
                                          double seconds) {
  SmallVector<BucketGroup> groups = collectBucketGroups(module);
  return findLimits({collectNeighbourBytes(groups), most,
                     boundSaving(model.getCluster(), getMicroBatches(module)),
                     kSearch.sameTime * seconds});
}

llvm::Error fcdp::joinBuckets(ModuleOp module, int64_t limit) {
  if (limit == 0)
    return llvm::Error::success();
  SmallVector<BucketGroup> groups = collectBucketGroups(module);
  if (failed(mergeBucketGroups(module, groups, limit)))
    return llvm::createStringError("cannot merge buckets");
  SmallVector<BucketOp> joined;
  BucketBuilder builder(module);
  for (const BucketGroup &group : groups) {
    if (group.buckets.size() == 1)
      continue;
    Block::iterator place(group.buckets.front());
    if (llvm::Error error = builder.add(group, place))
      return error;
    joined.append(group.buckets.begin(), group.buckets.end());
  }
  builder.moveFunctions();
  llvm::DenseSet<StringAttr> gone;
  for (BucketOp bucket : joined)
    gone.insert(bucket.getSymNameAttr());
  for (StateOp state : llvm::make_early_inc_range(module.getOps<StateOp>()))
    if (gone.contains(state.getBucketAttr().getAttr()))
      state.erase();
  for (BucketOp bucket : joined)
    bucket.erase();
  return llvm::Error::success();
}
