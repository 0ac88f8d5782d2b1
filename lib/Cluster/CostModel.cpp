// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CostModel.h"

#include "dialects/Fcdp/OpList.h"
#include "dialects/Fcdp/Tiers.h"
#include "dialects/Fcdp/Wires.h"
#include "fcdp/Cluster/FusedTraffic.h"
#include "fcdp/Cluster/LocalSumTraffic.h"
#include "fcdp/Cluster/OperatorCost.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace fcdp;

/// Gradients are summed in f32.
static constexpr int64_t kGradientBytes = 4;

/// Returns `estimate` with a total of `seconds`. The latency stays, and the
/// rest is time of the link. The cost demands no memory bandwidth, because the
/// measured time already includes contention for memory.
static Cost withTotal(Cost estimate, double seconds) {
  double latency = std::min(estimate.latency, seconds);
  return {estimate.resource,   latency, seconds - latency, 0, 0,
          estimate.processors, 0};
}

/// Returns the profile's cost of `kind` or, if it has none, `estimate(bytes)`.
static Cost measure(const Cluster &cluster, llvm::StringRef kind, double bytes,
                    llvm::function_ref<Cost(double)> estimate) {
  Cost estimated = estimate(bytes);
  if (!cluster.profile)
    return estimated;
  auto found = cluster.profile->operations.find(kind.str());
  if (found == cluster.profile->operations.end())
    return estimated;
  return withTotal(estimated,
                   readCurve(found->second, bytes, [&](double other) {
                     return estimate(other).getTotal();
                   }));
}

/// Does the same for a collective, whose kernel occupies processors. Its
/// measured times apply only to jobs of the same shape. They may be too short:
/// the rank that comes last finds data that the others have already sent into
/// the buffers of its sockets. So the link's bandwidth remains a bound, unless
/// messages are coded, whose bytes are only assumed.
static Cost measureOver(const Cluster &cluster, llvm::StringRef kind,
                        llvm::StringRef axis, double bytes,
                        llvm::function_ref<Cost(double)> estimate) {
  const Profile *profile = cluster.profile.get();
  bool isMeasured = profile && profile->nodes == cluster.nodes &&
                    profile->ranksPerNode == cluster.ranksPerNode;
  Cost cost = isMeasured
                  ? measure(cluster, (kind + " " + axis).str(), bytes, estimate)
                  : estimate(bytes);
  if (isMeasured && (kind == "all_gather" || kind == "reduce_scatter"))
    cost.seconds = std::max(cost.seconds, estimate(bytes).seconds);
  // A profile's compute times already include the processors that collectives
  // occupied.
  if (!profile) {
    const Link &link =
        cluster.links[cost.resource == Resource::inter ? LinkId::Inter
                                                       : LinkId::Intra];
    cost.processors =
        link.collectiveShare.value_or(cluster.device.collectiveShare);
  }
  return cost;
}

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
  Cost costOf(CacheStoreOp store) const {
    return model.costOfStore(bytesOf(store.getValue().getType()));
  }
  Cost costOf(CacheLoadOp load) const {
    return model.costOfLoad(bytesOf(load.getResult().getType()));
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
  if (isa<CacheStoreOp, CacheLoadOp>(op))
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
  if (collective.isCoded())
    return isReduction ? model.costOfCodedReduction(
                             ranks, part / ranks,
                             elementBytes(cast<RankedTensorType>(
                                              collective.getInput().getType())
                                              .getElementType()),
                             collective.getWire())
                       : model.costOfDeltaGather(ranks, part);
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
  Cost cost = inMemory("shard_update",
                       owned.elements * elementBytes(owned.updated), bytes);
  const Device &device = cluster.device;
  if (!isMeasured("shard_update"))
    cost.seconds +=
        countFlops(update, cluster.getWorldSize()) /
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

/// Returns the seconds of device memory traffic of an exchange: sent bytes are
/// read and received bytes are written.
static double timeOfExchange(const Device &device, int64_t ranks,
                             double partBytes) {
  return device.getMemoryTime(2 * (ranks - 1) * partBytes);
}

static Cost estimateLink(const Cluster &cluster, Axis axis, int64_t ranks,
                         double partBytes) {
  bool isNode = axis == Axis::node;
  TransferCost transfer = costOfDirect(
      cluster, cluster.links[isNode ? LinkId::Inter : LinkId::Intra], ranks,
      partBytes);
  return {isNode ? Resource::inter : Resource::intra, transfer.latency,
          transfer.seconds, timeOfExchange(cluster.device, ranks, partBytes)};
}

static Cost estimateFlatLinks(const Cluster &cluster, double partBytes) {
  FlatCost flat = cluster.flatCollectives == FlatCollectives::ring
                      ? costOfFlatRing(cluster, partBytes)
                      : costOfFlatDirect(cluster, partBytes);
  double memory =
      timeOfExchange(cluster.device, cluster.getWorldSize(), partBytes);
  if (flat.inter >= flat.intra)
    return {Resource::inter, flat.latency, flat.inter, memory};
  return {Resource::intra, flat.latency, flat.intra, memory};
}

/// Adds the time of the sum that follows when all parts have arrived. Its
/// memory traffic is counted during the transfer.
static Cost withSum(Cost gather, const Device &device, int64_t ranks,
                    double partBytes) {
  double sum = costOfSum(device, ranks, partBytes);
  gather.latency += sum;
  gather.deviceMemory += sum;
  return gather;
}

/// Estimates a collective in one step over `set`. If the tables of measured
/// collectives have it, they determine its time, which for a reduction includes
/// the sum. Otherwise `byLinks` gives the cost of a gather.
static Cost estimateCollective(const Cluster &cluster, RankSet set,
                               CollectiveKind kind, int64_t ranks,
                               double partBytes, Resource resource,
                               llvm::function_ref<Cost()> byLinks) {
  bool isSum = kind == CollectiveKind::reduceScatter;
  auto measured = costOfMeasured(cluster, set, kind, ranks, partBytes);
  if (!measured)
    return isSum ? withSum(byLinks(), cluster.device, ranks, partBytes)
                 : byLinks();
  double memory = timeOfExchange(cluster.device, ranks, partBytes);
  if (isSum)
    memory += costOfSum(cluster.device, ranks, partBytes);
  return {resource, measured->latency, measured->seconds, memory};
}

static Cost estimateOverAxis(const Cluster &cluster, Axis axis,
                             CollectiveKind kind, int64_t ranks,
                             double partBytes) {
  bool isNode = axis == Axis::node;
  return estimateCollective(
      cluster, isNode ? RankSet::node : RankSet::local, kind, ranks, partBytes,
      isNode ? Resource::inter : Resource::intra,
      [&] { return estimateLink(cluster, axis, ranks, partBytes); });
}

static Cost estimateFlat(const Cluster &cluster, CollectiveKind kind,
                         double partBytes) {
  Resource resource = isLimitedByNetwork(cluster, kind, partBytes)
                          ? Resource::inter
                          : Resource::intra;
  return estimateCollective(
      cluster, RankSet::world, kind, cluster.getWorldSize(), partBytes,
      resource, [&] { return estimateFlatLinks(cluster, partBytes); });
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

/// Adds the time in which the rank codes `coded` parts and decodes one part
/// from each other rank. Nothing is sent during that time.
static Cost withCodec(Cost transfer, const Codec &codec, int64_t coded,
                      int64_t ranks, double partBytes) {
  transfer.latency += double(coded + ranks - 1) * partBytes / codec.rate;
  return transfer;
}

Cost CostModel::costOfDeltaGather(int64_t ranks, double partBytes) const {
  const Codec &codec = cluster.codec;
  return measureOver(
      cluster, getCollectiveName(CollectiveKind::allGather, Wire::delta),
      stringifyAxis(Axis::node), partBytes, [&](double bytes) {
        Cost transfer =
            estimateOverAxis(cluster, Axis::node, CollectiveKind::allGather,
                             ranks, bytes * codec.deltaBits / 16);
        return withCodec(transfer, codec, 1, ranks, bytes);
      });
}

/// Returns the bits of a message for each value of `bits` bits.
static double getMessageBits(const Codec &codec, Wire wire, double bits) {
  // The exponent is coded; the other bits of a wider value are sent unchanged.
  return getFixedBits(wire).value_or(codec.codedBits + bits - 16);
}

Cost CostModel::costOfCodedReduction(int64_t ranks, double partBytes,
                                     int64_t elementBytes, Wire wire) const {
  const Codec &codec = cluster.codec;
  double bits = 8.0 * static_cast<double>(elementBytes);
  double share = getMessageBits(codec, wire, bits) / bits;
  return measureOver(
      cluster, getCollectiveName(CollectiveKind::reduceScatter, wire),
      stringifyAxis(Axis::node), partBytes, [&](double bytes) {
        Cost transfer =
            estimateOverAxis(cluster, Axis::node, CollectiveKind::allGather,
                             ranks, bytes * share);
        return withSum(withCodec(transfer, codec, ranks - 1, ranks, bytes),
                       cluster.device, ranks, bytes);
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
