// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Layout/ShardStates.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fcdp;

/// Changes the gather to begin from the part of `bucket` that this rank owns.
/// Removes it if this rank owns all.
static void gatherFromOwned(AllGatherOp gather, BucketOp bucket, MeshOp mesh) {
  auto cast = gather.getInput().getDefiningOp<CastShardOp>();
  Value shard = cast ? cast.getInput() : gather.getInput();
  RankedTensorType owned = getStateType(bucket, StateRole::shard, mesh);
  shard.setType(owned);
  if (cast)
    cast.getResult().setType(owned.clone(bucket.getWire()));
  // Types do not show whether a gather is needed, because a bucket may have no
  // elements.
  if (countParts(bucket.getSharding(), mesh) > 1) {
    gather.setAxesAttr(oneAxis(gather.getContext(), Axis::local));
    return;
  }
  gather.replaceAllUsesWith(gather.getInput());
  gather.erase();
}

/// Gathers this rank's part of the gradient of `bucket` after its reduction.
static void gatherOwned(AccumulateOp sum, BucketOp bucket, MeshOp mesh) {
  auto reduce = sum.getValue().getDefiningOp<ReduceScatterOp>();
  if (countParts(bucket.getSharding(), mesh) == mesh.getWorldSize())
    return;
  RankedTensorType owned = getStateType(bucket, StateRole::grad, mesh);
  OpBuilder builder(reduce);
  builder.setInsertionPointAfter(reduce);
  ArrayAttr axes = bucket.getSharding() == Sharding::none
                       ? reduce.getAxes()
                       : oneAxis(reduce.getContext(), Axis::node);
  sum.getValueMutable().assign(AllGatherOp::create(
      builder, reduce.getLoc(), owned, reduce.getResult(),
      reduce.getSourceAttr(), reduce.getMeshAttr(), axes, IntegerAttr()));
}

bool fcdp::canShardStates(ModuleOp module, Sharding sharding) {
  for (auto function : module.getOps<func::FuncOp>())
    for (auto reduce : function.getOps<ReduceScatterOp>())
      if (reduce.getAxes().size() != 2)
        return false; // two-level already
  return llvm::all_of(module.getOps<BucketOp>(), [&](BucketOp bucket) {
    Residency residency = bucket.getResidency().value_or(Residency::full);
    return bucket.getSharding() == Sharding::world &&
           isPossible(sharding, residency) &&
           isPossible(sharding, bucket.getCarry().value_or(residency));
  });
}

void fcdp::shardStates(ModuleOp module, Sharding sharding) {
  if (sharding == Sharding::world)
    return;
  SymbolTable table(module);
  MeshOp mesh = getMesh(module);
  for (auto bucket : module.getOps<BucketOp>())
    bucket.setSharding(sharding);
  for (auto state : module.getOps<StateOp>())
    state.setType(
        getStateType(table.lookup<BucketOp>(state.getBucketAttr().getAttr()),
                     state.getRole(), mesh));
  for (auto function : module.getOps<func::FuncOp>()) {
    for (AllGatherOp gather :
         llvm::make_early_inc_range(function.getOps<AllGatherOp>()))
      gatherFromOwned(gather,
                      table.lookup<BucketOp>(gather.getSourceAttr().getAttr()),
                      mesh);
    for (auto sum : function.getOps<AccumulateOp>())
      gatherOwned(sum, table.lookup<BucketOp>(sum.getTarget()), mesh);
  }
}
