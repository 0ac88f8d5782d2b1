// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CostModel.h"

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/OperatorCost.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

/// Gradients are summed in f32.
static constexpr int64_t kGradientBytes = 4;

namespace {
/// The estimates for one operation.
class Estimator {
public:
  explicit Estimator(const CostModel &model)
      : model(model), cluster(model.getCluster()) {}

  Cost estimate(Operation *op) const {
    return llvm::TypeSwitch<Operation *, Cost>(op)
        .Case<aten::CallOp, AllGatherOp, ReduceScatterOp, CacheStoreOp,
              CacheLoadOp, CastShardOp, PackOp, AccumulateOp, AddOp,
              ShardUpdateOp, ClipGradientsOp, WriteBufferOp>(
            [&](auto concrete) { return costOf(concrete); })
        .Default(Cost());
  }

private:
  Cost costOf(aten::CallOp call) const;
  Cost costOf(AllGatherOp gather) const;
  Cost costOf(ReduceScatterOp reduce) const;
  Cost costOf(CacheStoreOp store) const {
    return model.costOfStore(bytesOf(store.getValue().getType()));
  }
  Cost costOf(CacheLoadOp load) const {
    return model.costOfLoad(bytesOf(load.getResult().getType()));
  }
  Cost costOf(CastShardOp cast) const {
    return inMemory(bytesOf(cast.getInput().getType()) +
                    bytesOf(cast.getResult().getType()));
  }
  Cost costOf(PackOp pack) const;
  Cost costOf(AccumulateOp accumulate) const;
  /// Reads both and writes.
  Cost costOf(AddOp add) const {
    return inMemory(3 * bytesOf(add.getResult().getType()));
  }
  Cost costOf(ShardUpdateOp update) const;
  Cost costOf(ClipGradientsOp clip) const;
  /// A copy.
  Cost costOf(WriteBufferOp write) const {
    return inMemory(2 * bytesOf(write.getValue().getType()));
  }

  /// Of a rank's part, if `type` is a shard.
  double bytesOf(Type type) const;
  Cost inMemory(double bytes) const {
    return {Resource::compute, cluster.device.launchLatency,
            cluster.device.getMemoryTime(bytes)};
  }
  int64_t getRanks(Axis axis) const {
    return axis == Axis::node ? cluster.nodes : cluster.ranksPerNode;
  }

  const CostModel &model;
  const Cluster &cluster;
};
} // namespace

static Axis getAxis(ArrayAttr axes) {
  return cast<AxisAttr>(axes[0]).getValue();
}

double Estimator::bytesOf(Type type) const {
  if (auto shard = dyn_cast<ShardType>(type))
    return static_cast<double>(byteSize(shard.getWhole())) /
           cluster.getWorldSize();
  return byteSize(cast<RankedTensorType>(type));
}

Cost Estimator::costOf(aten::CallOp call) const {
  OperatorWork work = measureWork(call);
  if (work.bytes == 0 && work.flops == 0)
    return {};
  return {Resource::compute, cluster.device.launchLatency,
          costOfWork(cluster.device, work)};
}

Cost Estimator::costOf(AllGatherOp gather) const {
  double part = bytesOf(gather.getInput().getType());
  if (gather.getAxes().size() > 1)
    return model.costOfFlatGather(part);
  Axis axis = getAxis(gather.getAxes());
  return model.costOfGather(axis, getRanks(axis), part);
}

Cost Estimator::costOf(ReduceScatterOp reduce) const {
  double bytes = bytesOf(reduce.getInput().getType());
  if (reduce.getAxes().size() > 1)
    return model.costOfFlatReduction(bytes / cluster.getWorldSize());
  Axis axis = getAxis(reduce.getAxes());
  return model.costOfReduction(axis, getRanks(axis), bytes / getRanks(axis));
}

Cost Estimator::costOf(PackOp pack) const {
  double bytes = bytesOf(pack.getResult().getType());
  for (Value value : pack.getValues())
    bytes += bytesOf(value.getType());
  return inMemory(bytes);
}

Cost Estimator::costOf(AccumulateOp accumulate) const {
  // Read and write, or read both and write.
  int64_t times = accumulate.getMode() == Accumulate::overwrite ? 2 : 3;
  return inMemory(times * bytesOf(accumulate.getValue().getType()));
}

/// Elements that a rank owns of a bucket.
static double countOwned(BucketOp bucket) {
  MeshOp mesh = getMesh(bucket->getParentOfType<ModuleOp>());
  return getStateType(bucket, StateRole::grad, mesh).getNumElements();
}

/// The elements that a rank owns, and the type, of a bucket or, before there
/// are buckets, of a parameter.
static std::pair<double, Type> getOwned(Operation *symbol, int64_t ranks) {
  if (auto bucket = dyn_cast_or_null<BucketOp>(symbol))
    return {countOwned(bucket), bucket.getStorage()};
  auto type = cast<ParameterOp>(symbol).getTensorType();
  return {static_cast<double>(type.getNumElements()) / ranks,
          type.getElementType()};
}

static int64_t countStates(Attribute optimizer) {
  if (auto sgd = dyn_cast<SGDAttr>(optimizer))
    return sgd.getMomentum().getValueAsDouble() != 0;
  return 2; // AdamW
}

Cost Estimator::costOf(ShardUpdateOp update) const {
  auto [elements, type] = getOwned(
      SymbolTable::lookupNearestSymbolFrom(update, update.getTargetAttr()),
      cluster.getWorldSize());
  // Reads the gradient, in f32; reads and writes the parameter and the
  // optimizer's states.
  int64_t bytes =
      kGradientBytes +
      2 * (1 + countStates(update.getOptimizer())) * elementBytes(type);
  return inMemory(elements * bytes);
}

Cost Estimator::costOf(ClipGradientsOp clip) const {
  // The norm reads a shard of the accumulators, whatever a rank owns; scaling
  // reads and writes all. In between, the ranks exchange their sums of squares,
  // a few bytes.
  double elements = 0;
  for (auto bucket : clip->getParentOfType<ModuleOp>().getOps<BucketOp>())
    if (bucket.getTrainable())
      elements +=
          static_cast<double>(bucket.getElements()) / cluster.getWorldSize() +
          2 * countOwned(bucket);
  Cost cost = inMemory(elements * kGradientBytes);
  if (cluster.nodes > 1)
    cost.latency += cluster.inter.latency;
  if (cluster.ranksPerNode > 1)
    cost.latency += cluster.intra.latency;
  return cost;
}

Cost CostModel::costOf(Operation *op) const {
  return Estimator(*this).estimate(op);
}

Cost CostModel::costOfGather(Axis axis, int64_t ranks, double partBytes) const {
  bool isNode = axis == Axis::node;
  TransferCost transfer = costOfDirect(
      cluster, isNode ? cluster.inter : cluster.intra, ranks, partBytes);
  return {isNode ? Resource::inter : Resource::intra, transfer.latency,
          transfer.seconds};
}

Cost CostModel::costOfReduction(Axis axis, int64_t ranks,
                                double partBytes) const {
  Cost cost = costOfGather(axis, ranks, partBytes);
  // The sum follows when all parts are there.
  cost.latency += costOfSum(cluster.device, ranks, partBytes);
  return cost;
}

Cost CostModel::costOfFlatGather(double partBytes) const {
  FlatCost flat = cluster.flatCollectives == FlatCollectives::ring
                      ? costOfFlatRing(cluster, partBytes)
                      : costOfFlatDirect(cluster, partBytes);
  if (flat.inter >= flat.intra)
    return {Resource::inter, flat.latency, flat.inter};
  return {Resource::intra, flat.latency, flat.intra};
}

Cost CostModel::costOfFlatReduction(double partBytes) const {
  Cost cost = costOfFlatGather(partBytes);
  cost.latency += costOfSum(cluster.device, cluster.getWorldSize(), partBytes);
  return cost;
}

Cost CostModel::costOfStore(double bytes) const {
  TransferCost transfer = costOfTransfer(cluster, cluster.d2h, bytes);
  return {Resource::d2h, transfer.latency, transfer.seconds};
}

Cost CostModel::costOfLoad(double bytes) const {
  TransferCost transfer = costOfTransfer(cluster, cluster.h2d, bytes);
  return {Resource::h2d, transfer.latency, transfer.seconds};
}
