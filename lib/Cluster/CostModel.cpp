// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CostModel.h"

#include "OperatorCost.h"
#include "dialects/Fcdp/Fcdp.h"
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
  explicit Estimator(const Cluster &cluster) : cluster(cluster) {}

  Cost estimate(Operation *op) const {
    return llvm::TypeSwitch<Operation *, Cost>(op)
        .Case<aten::CallOp, AllGatherOp, ReduceScatterOp, CacheStoreOp,
              CacheLoadOp, CastShardOp, PackOp, AccumulateOp, ShardUpdateOp,
              ClipGradientsOp, WriteBufferOp>(
            [&](auto concrete) { return costOf(concrete); })
        .Default(Cost());
  }

private:
  Cost costOf(aten::CallOp call) const;
  Cost costOf(AllGatherOp gather) const;
  Cost costOf(ReduceScatterOp reduce) const;
  Cost costOf(CacheStoreOp store) const {
    return onLink(Resource::d2h,
                  costOfTransfer(cluster, cluster.d2h,
                                 bytesOf(store.getValue().getType())));
  }
  Cost costOf(CacheLoadOp load) const {
    return onLink(Resource::h2d,
                  costOfTransfer(cluster, cluster.h2d,
                                 bytesOf(load.getResult().getType())));
  }
  Cost costOf(CastShardOp cast) const {
    return inMemory(bytesOf(cast.getInput().getType()) +
                    bytesOf(cast.getResult().getType()));
  }
  Cost costOf(PackOp pack) const;
  Cost costOf(AccumulateOp accumulate) const;
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
            bytes / cluster.device.memoryBandwidth};
  }
  static Cost onLink(Resource resource, TransferCost transfer) {
    return {resource, transfer.latency, transfer.seconds};
  }
  /// Each rank along `axes` has a part of `partBytes`.
  Cost alongAxes(ArrayAttr axes, double partBytes) const;
  int64_t getRanks(ArrayAttr axes) const;

  const Cluster &cluster;
};
} // namespace

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

int64_t Estimator::getRanks(ArrayAttr axes) const {
  if (axes.size() > 1)
    return cluster.getWorldSize();
  bool isNode = cast<AxisAttr>(axes[0]).getValue() == Axis::node;
  return isNode ? cluster.nodes : cluster.ranksPerNode;
}

Cost Estimator::alongAxes(ArrayAttr axes, double partBytes) const {
  if (axes.size() > 1) {
    FlatCost ring = costOfFlatRing(cluster, partBytes);
    if (ring.inter >= ring.intra)
      return {Resource::inter, ring.latency, ring.inter};
    return {Resource::intra, ring.latency, ring.intra};
  }
  bool isNode = cast<AxisAttr>(axes[0]).getValue() == Axis::node;
  return onLink(isNode ? Resource::inter : Resource::intra,
                costOfDirect(cluster, isNode ? cluster.inter : cluster.intra,
                             getRanks(axes), partBytes));
}

Cost Estimator::costOf(AllGatherOp gather) const {
  return alongAxes(gather.getAxes(), bytesOf(gather.getInput().getType()));
}

Cost Estimator::costOf(ReduceScatterOp reduce) const {
  int64_t ranks = getRanks(reduce.getAxes());
  double part = bytesOf(reduce.getInput().getType()) / ranks;
  Cost cost = alongAxes(reduce.getAxes(), part);
  // The sum follows when all parts are there.
  cost.latency += costOfSum(cluster.device, ranks, part);
  return cost;
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

/// The elements and the type of a bucket or, before there are buckets, of a
/// parameter.
static std::pair<int64_t, Type> getStorage(Operation *symbol) {
  if (auto bucket = dyn_cast_or_null<BucketOp>(symbol))
    return {bucket.getElements(), bucket.getStorage()};
  auto type = cast<ParameterOp>(symbol).getTensorType();
  return {type.getNumElements(), type.getElementType()};
}

static int64_t countStates(Attribute optimizer) {
  if (auto sgd = dyn_cast<SGDAttr>(optimizer))
    return sgd.getMomentum().getValueAsDouble() != 0;
  return 2; // AdamW
}

Cost Estimator::costOf(ShardUpdateOp update) const {
  auto [elements, type] = getStorage(
      SymbolTable::lookupNearestSymbolFrom(update, update.getTargetAttr()));
  // Reads the gradient, in f32; reads and writes the parameter and the
  // optimizer's states.
  int64_t bytes =
      kGradientBytes +
      2 * (1 + countStates(update.getOptimizer())) * elementBytes(type);
  return inMemory(static_cast<double>(elements) * bytes /
                  cluster.getWorldSize());
}

Cost Estimator::costOf(ClipGradientsOp clip) const {
  // The norm reads all accumulators, scaling reads and writes them. In between,
  // the ranks exchange their sums of squares, a few bytes.
  double bytes = 0;
  for (auto bucket : clip->getParentOfType<ModuleOp>().getOps<BucketOp>())
    if (bucket.getTrainable())
      bytes += static_cast<double>(bucket.getElements()) * kGradientBytes /
               cluster.getWorldSize();
  Cost cost = inMemory(3 * bytes);
  if (cluster.nodes > 1)
    cost.latency += cluster.inter.latency;
  if (cluster.ranksPerNode > 1)
    cost.latency += cluster.intra.latency;
  return cost;
}

Cost CostModel::costOf(Operation *op) const {
  return Estimator(cluster).estimate(op);
}
