// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CostModel.h"

#include "CollectiveEstimate.h"
#include "HostUpdateCost.h"
#include "MeasuredCost.h"
#include "dialects/Fcdp/OpList.h"
#include "dialects/Fcdp/StatePieces.h"
#include "dialects/Fcdp/Tiers.h"
#include "fcdp/Cluster/FusedTraffic.h"
#include "fcdp/Cluster/LocalSumTraffic.h"
#include "fcdp/Cluster/MessageCost.h"
#include "fcdp/Cluster/OperatorCost.h"
#include "fcdp/Cluster/WorkKind.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace fcdp;

/// Gradients are summed in f32.
static constexpr int64_t kGradientBytes = 4;

namespace {
/// Computes the cost of one operation.
class Estimator {
public:
  explicit Estimator(const CostModel &model)
      : model(model), cluster(model.getCluster()),
        slowdown(cluster.device.getSlowestFactor(cluster.getWorldSize()) /
                 cluster.device.sustained) {}

  Cost estimate(Operation *op) const {
    Cost cost = estimateDevice(op);
    if (!isa<aten::CallOp>(op))
      cost.issue = getIssueTime(op, cost);
    return cost;
  }

private:
  Cost estimateDevice(Operation *op) const {
    if (std::optional<double> bytes = measureLocalSum(op, cluster.localSums))
      return *bytes > 0 ? inMemory(*bytes) : Cost();
    if (auto call = dyn_cast<aten::CallOp>(op))
      return costOf(call);
    Cost cost;
    FcdpOps::visit<TakesTime>(op, [&](auto typed) { cost = costOf(typed); });
    return cost;
  }
  double getIssueTime(Operation *op, const Cost &cost) const;
  Cost costOf(aten::CallOp call) const;
  Cost costOfKernel(aten::CallOp call, const OperatorWork &work) const;
  Cost costOf(CollectiveOpInterface collective) const;
  /// Prices a copy between device and host.
  template <typename Copy,
            std::enable_if_t<IsHostCopy<Copy>::value> * = nullptr>
  Cost costOf(Copy copy) const {
    double bytes = bytesOf(getCopiedType(copy));
    Cost cost =
        isLoad(copy) ? model.costOfLoad(bytes) : model.costOfStore(bytes);
    // Its other end may be in a file, which is read or written meanwhile.
    if (isOfFile(copy))
      cost.seconds = std::max(cost.seconds, cluster.getFileTime(bytes));
    return cost;
  }
  static bool isOfFile(Operation *op) {
    if (!isa<StateLoadOp, StateStoreOp>(op))
      return false;
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
        op, cast<StorageOpInterface>(op).getStorageAttr());
    return state && state.getArena() == Arena::file;
  }
  Cost costOf(CastShardOp cast) const {
    double bytes = bytesOf(cast.getResult().getType());
    return inMemory("cast", bytes, bytesOf(cast.getInput().getType()) + bytes);
  }
  Cost costOf(PackOp pack) const;
  Cost costOf(AccumulateOp accumulate) const;
  /// Reads both operands and writes the result.
  Cost costOf(AddOp add) const {
    double bytes = bytesOf(add.getResult().getType());
    return inMemory("add", bytes, 3 * bytes);
  }
  Cost costOf(ShardUpdateOp update) const;
  Cost costOf(HostUpdateOp update) const {
    auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
        update, update.getTargetAttr());
    return costOfHostUpdate(
        cluster, bucket, update.getSettings(),
        static_cast<double>(update.getEnd() - update.getBegin()));
  }
  /// Reads the outer parameters and the node's own, and writes the difference.
  Cost costOf(OuterDifferenceOp difference) const {
    return inOuterStates(difference.getResult().getType(), 1, 1);
  }
  /// Reads and writes the outer parameters and their momentum, reads the
  /// difference, and writes the node's own parameters.
  Cost costOf(OuterUpdateOp update) const {
    return inOuterStates(update.getValue().getType(), 4, 1);
  }
  /// Returns the cost of an operation that accesses outer states, which are in
  /// host memory, `outerTimes` times, a node's own parameters `ownTimes` times,
  /// and a value of `type` once.
  Cost inOuterStates(RankedTensorType type, int64_t outerTimes,
                     int64_t ownTimes) const;
  Cost costOf(UnscaleGradientsOp unscale) const;
  Cost costOf(ClipGradientsOp clip) const;
  /// Returns the cost of `kind`, in which `elements` of gradients are read or
  /// written, and the ranks exchange a number each.
  Cost onGradients(ModuleOp module, llvm::StringRef kind,
                   double elements) const;
  /// Copies the value.
  Cost costOf(WriteBufferOp write) const {
    return inMemory(2 * bytesOf(write.getValue().getType()));
  }

  /// Returns the size of `type` or, if it is a shard, of one rank's part.
  double bytesOf(Type type) const;
  Cost inMemory(double bytes) const {
    double seconds = cluster.device.getMemoryTime(bytes);
    return {Resource::compute, cluster.device.launchLatency, seconds, seconds};
  }
  /// Returns the cost of `bytes` of memory traffic, or the profile's cost of
  /// `kind` with `size` bytes.
  Cost inMemory(llvm::StringRef kind, double size, double bytes) const {
    return measure(cluster, kind, size, [&](double other) {
      return inMemory(size > 0 ? bytes * (other / size) : bytes);
    });
  }
  bool isMeasured(const std::string &kind) const {
    return cluster.profile && cluster.profile->operations.count(kind);
  }
  int64_t getRanks(Axis axis) const {
    return axis == Axis::node ? cluster.nodes : cluster.ranksPerNode;
  }

  const CostModel &model;
  const Cluster &cluster;
  /// The factor by which operators take longer in training than alone. All
  /// ranks wait for the slowest device.
  double slowdown;
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

/// Views cost the device nothing. An operator that is fused with the next one
/// is part of its kernel, so it is neither launched nor issued.
Cost Estimator::costOf(aten::CallOp call) const {
  OperatorWork work = measureWork(call);
  if (cluster.fusion == Fusion::pointwise && canBeFused(call)) {
    FusedTraffic traffic = measureFusedTraffic(call);
    work.bytes = traffic.bytes;
    if (!traffic.isLast)
      return {Resource::compute, 0,
              slowdown * cluster.device.getMemoryTime(work.bytes)};
  }
  Cost cost = costOfKernel(call, work);
  const IssueTimes &issue = cluster.host.issue;
  cost.issue = cost.getTotal() > 0 ? issue.op : issue.view;
  return cost;
}

Cost Estimator::costOfKernel(aten::CallOp call,
                             const OperatorWork &work) const {
  const Device &device = cluster.device;
  Cost estimated{Resource::compute, device.launchLatency,
                 slowdown * costOfWork(device, work, cluster.expertSkew),
                 device.getMemoryTime(work.bytes)};
  if (cluster.profile) {
    auto found = cluster.profile->operators.find(keyOfCall(call));
    if (found != cluster.profile->operators.end())
      return withTotal(estimated, found->second);
  }
  if (work.bytes == 0 && work.flops == 0)
    return {};
  return estimated;
}

double Estimator::getIssueTime(Operation *op, const Cost &cost) const {
  const IssueTimes &issue = cluster.host.issue;
  if (isa<CollectiveOpInterface>(op))
    return issue.transfer;
  if (getWorkKind(op) == WorkKind::copy)
    return issue.getCopy();
  return cost.getTotal() > 0 ? issue.op : 0;
}

Cost Estimator::costOf(CollectiveOpInterface collective) const {
  double part = bytesOf(collective.getInput().getType());
  bool isReduction = collective.isReduction();
  if (collective.getAxes().size() > 1)
    return isReduction
               ? model.costOfFlatReduction(part / cluster.getWorldSize())
               : model.costOfFlatGather(part);
  Axis axis = getAxis(collective.getAxes());
  int64_t ranks = getRanks(axis);
  if (std::optional<Cost> cost =
          costOfMessages(cluster, collective, ranks, part))
    return *cost;
  return isReduction ? model.costOfReduction(axis, ranks, part / ranks)
                     : model.costOfGather(axis, ranks, part);
}

/// Returns the cost of writing the whole result except for in-place gradients,
/// and of reading the gradients that are copied.
Cost Estimator::costOf(PackOp pack) const {
  double written = bytesOf(pack.getResult().getType()), copied = 0;
  for (auto [value, parameter] :
       llvm::zip_equal(pack.getValues(), pack.getParameters())) {
    bool isThere = pack.getInPlaceAttr() &&
                   llvm::is_contained(pack.getInPlaceAttr(), parameter);
    double bytes = bytesOf(value.getType());
    written -= isThere ? bytes : 0;
    copied += isThere ? 0 : bytes;
  }
  return inMemory("pack", written, written + copied);
}

Cost Estimator::costOf(AccumulateOp accumulate) const {
  // `overwrite` reads the value and writes the sum; `add` reads both and
  // writes.
  int64_t times = accumulate.getMode() == Accumulate::overwrite ? 2 : 3;
  double bytes = bytesOf(accumulate.getValue().getType());
  return inMemory("accumulate", bytes, times * bytes);
}

/// Returns the number of elements that a rank owns of the bucket.
static double countOwned(BucketOp bucket) {
  MeshOp mesh = getMesh(bucket->getParentOfType<ModuleOp>());
  return getStateType(bucket, StateRole::grad, mesh).getNumElements();
}

namespace {
/// The part of a bucket or, before bucketing, of a parameter that a rank owns.
struct Owned {
  double elements;
  Type storage;
  /// The type of the memory that the optimizer updates: the master's, if there
  /// is one.
  Type updated;
};
} // namespace

static Owned getOwned(Operation *symbol, int64_t ranks) {
  if (auto bucket = dyn_cast_or_null<BucketOp>(symbol))
    return {countOwned(bucket), bucket.getStorage(), getOptimizerType(bucket)};
  auto type = cast<ParameterOp>(symbol).getTensorType();
  return {static_cast<double>(type.getNumElements()) / ranks,
          type.getElementType(), type.getElementType()};
}

/// Returns the bytes of a rank's part of a state of the optimizer. Before
/// bucketing, elements of states have the type of the parameter.
static double stateBytes(Operation *target, StateRole role, int64_t maxSide,
                         int64_t ranks) {
  if (auto bucket = dyn_cast<BucketOp>(target))
    return static_cast<double>(byteSize(getStateType(
        bucket, role, getMesh(bucket->getParentOfType<ModuleOp>()))));
  auto type = cast<ParameterOp>(target).getTensorType();
  return static_cast<double>(countStateElements(role, type, maxSide)) *
         elementBytes(type.getElementType()) / ranks;
}

/// Returns the floating-point operations of the rank whose matrices need the
/// most; before bucketing, those of an even share.
static double countFlops(ShardUpdateOp update, int64_t ranks) {
  Operation *target =
      SymbolTable::lookupNearestSymbolFrom(update, update.getTargetAttr());
  OptimizerAttrInterface optimizer = update.getSettings();
  if (auto parameter = dyn_cast<ParameterOp>(target))
    return optimizer.getFlops(parameter.getTensorType()) / ranks;
  auto bucket = cast<BucketOp>(target);
  auto elements = static_cast<int64_t>(countOwned(bucket));
  if (!optimizer.getNeededLayout() || elements == 0)
    return 0;
  std::map<int64_t, double> shards;
  for (auto member : bucket.getMembers().getAsRange<MemberAttr>())
    shards[member.getOffset() / elements] +=
        optimizer.getFlops(SymbolTable::lookupNearestSymbolFrom<ParameterOp>(
                               bucket, member.getParameter())
                               .getTensorType());
  double most = 0;
  for (auto [shard, flops] : shards)
    most = std::max(most, flops);
  return most;
}

Cost Estimator::costOf(ShardUpdateOp update) const {
  Operation *target =
      SymbolTable::lookupNearestSymbolFrom(update, update.getTargetAttr());
  Owned owned = getOwned(target, cluster.getWorldSize());
  // It reads the gradient in f32, and reads and writes the parameter, or its
  // master, and the optimizer's states. A master's rounding is written.
  double each =
      kGradientBytes + 2 * elementBytes(owned.updated) +
      update.getSettings().getScratchTraffic() +
      (owned.updated != owned.storage ? elementBytes(owned.storage) : 0);
  double bytes = owned.elements * each;
  OptimizerAttrInterface settings = update.getSettings();
  for (StateRole role : settings.getStates())
    bytes += 2 * stateBytes(target, role, settings.getMaxSide(),
                            cluster.getWorldSize());
  double part = 1;
  if (update.isOfPiece() && owned.elements > 0)
    part = static_cast<double>(*update.getEnd() - *update.getBegin()) /
           owned.elements;
  Cost cost = inMemory("shard_update",
                       part * owned.elements * elementBytes(owned.updated),
                       part * bytes);
  const Device &device = cluster.device;
  if (!isMeasured("shard_update"))
    cost.seconds +=
        part * countFlops(update, cluster.getWorldSize()) /
        ((settings.multipliesInF32() ? device.flops.f32 : device.flops.bf16) *
         device.computeEfficiency);
  return cost;
}

Cost Estimator::inOuterStates(RankedTensorType type, int64_t outerTimes,
                              int64_t ownTimes) const {
  double states = static_cast<double>(type.getNumElements()) * kGradientBytes;
  Cost cost = inMemory(bytesOf(type) + states * (outerTimes + ownTimes));
  // The update works on pieces, each of which is copied separately.
  cost.seconds =
      std::max(cost.seconds, outerTimes * model.costOfLoad(states).getTotal());
  return cost;
}

/// Returns the number of elements of gradients that a rank owns.
static double countOwnedGradients(ModuleOp module) {
  double owned = 0;
  for (auto bucket : module.getOps<BucketOp>())
    if (bucket.getTrainable())
      owned += countOwned(bucket);
  return owned;
}

Cost Estimator::costOf(UnscaleGradientsOp unscale) const {
  // It reads and writes all elements that the rank owns.
  auto module = unscale->getParentOfType<ModuleOp>();
  return onGradients(module, "unscale_gradients",
                     2 * countOwnedGradients(module));
}

Cost Estimator::costOf(ClipGradientsOp clip) const {
  // The norm reads one shard of each accumulator, even if the rank owns more.
  // Scaling reads and writes all elements that the rank owns.
  auto module = clip->getParentOfType<ModuleOp>();
  double elements = 2 * countOwnedGradients(module);
  for (auto bucket : module.getOps<BucketOp>())
    if (bucket.getTrainable())
      elements +=
          static_cast<double>(bucket.getElements()) / cluster.getWorldSize();
  return onGradients(module, "clip_gradients", elements);
}

Cost Estimator::onGradients(ModuleOp module, llvm::StringRef kind,
                            double elements) const {
  Cost cost = inMemory(kind, countOwnedGradients(module) * kGradientBytes,
                       elements * kGradientBytes);
  if (isMeasured(kind.str()))
    return cost;
  if (cluster.nodes > 1)
    cost.latency += cluster.links[LinkId::Inter].latency;
  if (cluster.ranksPerNode > 1)
    cost.latency += cluster.links[LinkId::Intra].latency;
  return cost;
}

Cost CostModel::costOf(Operation *op) const {
  return Estimator(*this).estimate(op);
}

/// Estimates a copy of `bytes` per rank between host and device. Its time is
/// the longer one of the link's and the host memory's.
static Cost estimateCopy(const Cluster &cluster, Resource resource,
                         const Link &link, double bytes) {
  TransferCost transfer = costOfTransfer(cluster, link, bytes);
  double host = cluster.getHostMemoryTime(bytes);
  return {resource, transfer.latency, std::max(transfer.seconds, host),
          cluster.device.getMemoryTime(bytes), host};
}

Cost CostModel::costOfGather(Axis axis, int64_t ranks, double partBytes) const {
  return measureOver(
      cluster, "all_gather", stringifyAxis(axis), partBytes, [&](double bytes) {
        return estimateOverAxis(cluster, axis, CollectiveKind::allGather, ranks,
                                bytes);
      });
}

Cost CostModel::costOfReduction(Axis axis, int64_t ranks,
                                double partBytes) const {
  return measureOver(cluster, "reduce_scatter", stringifyAxis(axis), partBytes,
                     [&](double bytes) {
                       return estimateOverAxis(cluster, axis,
                                               CollectiveKind::reduceScatter,
                                               ranks, bytes);
                     });
}

Cost CostModel::costOfFlatGather(double partBytes) const {
  return measureOver(
      cluster, "all_gather", "world", partBytes, [&](double bytes) {
        return estimateFlat(cluster, CollectiveKind::allGather, bytes);
      });
}

Cost CostModel::costOfFlatReduction(double partBytes) const {
  return measureOver(
      cluster, "reduce_scatter", "world", partBytes, [&](double bytes) {
        return estimateFlat(cluster, CollectiveKind::reduceScatter, bytes);
      });
}

Cost CostModel::costOfStore(double bytes) const {
  return measure(cluster, "cache_store", bytes, [&](double bytes) {
    return estimateCopy(cluster, Resource::d2h, cluster.links[kStoreRoute.link],
                        bytes);
  });
}

Cost CostModel::costOfLoad(double bytes) const {
  return measure(cluster, "cache_load", bytes, [&](double bytes) {
    return estimateCopy(cluster, Resource::h2d, cluster.links[kLoadRoute.link],
                        bytes);
  });
}

/// The stages of a bucket's update run at the same time, so its time is that of
/// the longest one.
bool CostModel::isFasterOnHost(BucketOp bucket,
                               OptimizerAttrInterface optimizer) const {
  auto elements = static_cast<double>(countShardElements(bucket));
  double states = elements * getStateBytesEach(bucket, optimizer);
  double shard = elements * elementBytes(bucket.getStorage());
  double stored = 4 * elements + (bucket.getMaster() ? 0 : shard);
  // All copies of a node and its updates share its memory, whose time is the
  // sum of theirs.
  Cost load = costOfLoad(states), store = costOfStore(states);
  double streamed = std::max(
      {load.getTotal(), store.getTotal(), load.hostMemory + store.hostMemory});
  Cost down = costOfStore(stored), up = costOfLoad(shard),
       update = costOfHostUpdate(cluster, bucket, optimizer, elements);
  double onHost =
      std::max({down.getTotal(), up.getTotal(), update.getTotal(),
                down.hostMemory + up.hostMemory + update.hostMemory});
  return onHost < streamed;
}
