// SPDX-License-Identifier: Apache-2.0
//
// Compares the bytes that each function sends and copies with the closed forms
// of the buckets' attributes.

#include "fcdp/Verification/PlanProofs.h"

#include "BucketUsage.h"
#include "PlanModel.h"
#include "dialects/Fcdp/StepFamily.h"
#include "dialects/Fcdp/Wires.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Counts of one function's transfers for one bucket.
struct Counts {
  int64_t interGathers = 0, intraGathers = 0, loads = 0, stores = 0;
  int64_t interReductions = 0, intraReductions = 0;
  /// Copies of gradient accumulators to and from host memory.
  int64_t sumLoads = 0, sumStores = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Closed forms
//===----------------------------------------------------------------------===//

/// Returns whether node slices are copied to other memory, and back.
static bool isStored(Residency residency) {
  return residency == Residency::host;
}

/// Returns the residency between two uses in a micro-batch: one that is carried
/// on the device is at least as near within a micro-batch.
static Residency getWithin(BucketOp bucket, bool isCarried) {
  Residency within = *bucket.getResidency();
  Residency carry = bucket.getCarry().value_or(within);
  if (!isCarried || within == Residency::full)
    return within;
  return carry == Residency::full || carry == Residency::node ? carry : within;
}

/// Returns whether gathers of the copy run in one step over all ranks: nothing
/// keeps a node slice, which is the result of the first of two steps.
static bool gathersInOneStep(BucketOp bucket, MeshOp mesh) {
  auto keepsSlice = [](std::optional<Residency> residency) {
    return residency && (*residency == Residency::node || isStored(*residency));
  };
  return bucket.getCollectives() == Collectives::flat && mesh.getNode() > 1 &&
         mesh.getLocal() > 1 && !keepsSlice(bucket.getResidency()) &&
         !keepsSlice(bucket.getCarry());
}

static bool gathersDeltas(BucketOp bucket) {
  return bucket.getGatherWire() == Wire::delta;
}

/// Returns the bytes by which the messages for `count` parts may exceed the
/// parts. The format is stated here independently of the codec: a header of 64
/// bytes, and 16 for each 128 KiB, rounded up to a multiple of 64.
static int64_t countHeaders(int64_t count, int64_t part) {
  if (part == 0)
    return 0;
  constexpr int64_t chunk = 128 << 10;
  int64_t most = 64 + part + (part + chunk - 1) / chunk * 16;
  return count * ((most + 63) / 64 * 64 - part);
}

/// Returns the bytes of a message of `part` quantised values. The format is
/// stated here independently of the codec: a header of 64 bytes, and for each
/// block 2 bytes and the codes of 256 values in 8 bits or of 128 in 4, rounded
/// up to a multiple of 64.
static int64_t countQuantized(Wire wire, int64_t part) {
  if (part == 0)
    return 0;
  int64_t block = wire == Wire::int8 ? 256 : 128;
  int64_t codes = wire == Wire::int8 ? 256 : 64;
  int64_t bytes = 64 + (part + block - 1) / block * (2 + codes);
  return (bytes + 63) / 64 * 64;
}

/// Counts gathers, loads and stores as if there were several nodes. `uses` is
/// the number of live ranges per micro-batch.
static Counts countFetches(BucketOp bucket, Role role, int64_t uses,
                           bool hasSeveral) {
  Counts counts;
  bool isTrained = bucket.getTrainable();
  bool isCarried = !isTrained || hasSeveral;
  Residency carry = bucket.getCarry().value_or(*bucket.getResidency());
  Residency residency = getWithin(bucket, isCarried);
  // Whether this function fills the copy that is carried to later functions.
  bool fills = isTrained ? role == Role::only_microbatch ||
                               role == Role::first_microbatch
                         : role == Role::init;
  bool isOnDevice =
      residency == Residency::full || residency == Residency::node;
  int64_t fetches = isOnDevice ? 1 : uses;
  if (isMicrobatch(role))
    counts.intraGathers = residency == Residency::full ? 1 : uses;
  if (isCarried && carry == Residency::full) {
    counts.interGathers = counts.intraGathers = fills;
  } else if (isCarried && carry == Residency::node) {
    counts.interGathers = fills;
  } else if (isCarried && isStored(carry)) {
    bool isWithin = isStored(*bucket.getResidency());
    if (!isTrained || !fills) {
      counts.interGathers = counts.stores = fills;
      counts.loads = isMicrobatch(role) ? fetches : 0;
    } else {
      counts.stores = 1;
      counts.interGathers = isWithin ? 1 : fetches;
      counts.loads = isWithin ? fetches - 1 : 0;
    }
  } else if (isMicrobatch(role)) {
    // The copy that the next gather refers to is kept, even if nothing loads
    // it.
    bool isCached =
        isStored(residency) && (fetches > 1 || gathersDeltas(bucket));
    counts.interGathers = isCached ? 1 : fetches;
    counts.stores = isCached;
    counts.loads = isCached ? fetches - 1 : 0;
  }
  return counts;
}

/// Does the same for a batch of an evaluation with `uses` live ranges. The
/// first batch of an evaluation gathers trained buckets, which have changed.
/// The other batches use the copies that a step keeps between micro-batches,
/// and those that it keeps in host memory within one.
static Counts countBetweenSteps(BucketOp bucket, Role role, int64_t uses,
                                bool hasSeveral) {
  Counts counts;
  bool isTrained = bucket.getTrainable();
  bool isCarried = !isTrained || hasSeveral;
  Residency carry = bucket.getCarry().value_or(*bucket.getResidency());
  Residency within = getWithin(bucket, isCarried);
  // A slice that is stored for the uses of one micro-batch.
  bool isOfOne = (!isCarried || carry == Residency::drop) && isStored(within);
  if (isOfOne)
    carry = within;
  else if (!isCarried)
    carry = Residency::drop;
  bool isGathered = carry == Residency::drop ||
                    ((isTrained || isOfOne) && findsStaleCopies(role));
  // The sources of the first use, and of each later one.
  counts.interGathers = isGathered;
  counts.loads = !isGathered && isStored(carry);
  counts.stores = isGathered && isStored(carry);
  counts.intraGathers = carry == Residency::full && !isGathered ? 0
                        : within == Residency::full             ? 1
                                                                : uses;
  bool isDropped = within == Residency::drop;
  bool isLoaded =
      isStored(within) || (isDropped && !isGathered && isStored(carry));
  counts.loads += isLoaded ? uses - 1 : 0;
  counts.interGathers += isDropped && !isLoaded ? uses - 1 : 0;
  return counts;
}

/// Corrects the counts for a prefetched bucket. The first fetch of each
/// micro-batch after the first is issued in the function before it:
/// @first_microbatch issues one more, @last_microbatch one less.
static void addCrossing(Counts &counts, BucketOp bucket, Role role) {
  int64_t more =
      (role == Role::first_microbatch) - (role == Role::last_microbatch);
  Residency carry = bucket.getCarry().value_or(*bucket.getResidency());
  counts.intraGathers += more;
  if (isStored(carry))
    counts.loads += more;
  else if (carry == Residency::drop)
    counts.interGathers += more;
}

static Counts countReductions(BucketOp bucket, Role role, bool hasSeveral,
                              MeshOp mesh) {
  Counts counts;
  if (!bucket.getTrainable() || !isMicrobatch(role))
    return counts;
  Accumulation mode =
      hasSeveral ? bucket.getAccumulation().value_or(Accumulation::sharded)
                 : Accumulation::sharded;
  bool isLast = role == Role::last_microbatch;
  // Within one node there is nothing to reduce at the end. With one rank per
  // node there is nothing to reduce before the end.
  if (sumsSlice(mode) && mesh.getNode() == 1)
    mode = Accumulation::sharded;
  counts.interReductions =
      !reducesWithinNode(bucket) && (mode == Accumulation::sharded || isLast);
  counts.intraReductions = mode != Accumulation::full || isLast;
  if (mode == Accumulation::node_host) {
    counts.sumLoads = role != Role::first_microbatch;
    counts.sumStores = !isLast;
  }
  return counts;
}

/// Returns the bytes that a rank sends in `count` collectives over both axes,
/// each of `whole` bytes divided equally among all ranks.
static LinkBytes sendFlat(int64_t count, int64_t whole, MeshOp mesh) {
  int64_t ranks = mesh.getWorldSize(), locals = mesh.getLocal();
  LinkBytes bytes;
  bytes[LinkId::Inter] = count * (ranks - locals) * (whole / ranks);
  bytes[LinkId::Intra] = count * (locals - 1) * (whole / ranks);
  return bytes;
}

/// Returns the bytes of gathers of reduced gradients, in f32, into the part
/// that a rank owns.
static LinkBytes countGradientGathers(BucketOp bucket, int64_t gathers,
                                      MeshOp mesh) {
  int64_t nodes = mesh.getNode(), locals = mesh.getLocal();
  int64_t whole = static_cast<int64_t>(bucket.getElements()) *
                  static_cast<int64_t>(sizeof(float));
  LinkBytes bytes;
  if (bucket.getSharding() == Sharding::world)
    return bytes;
  if (bucket.getSharding() == Sharding::none && reducesFlat(bucket, mesh))
    return sendFlat(gathers, whole, mesh);
  bytes[LinkId::Inter] = gathers * (nodes - 1) * (whole / nodes / locals);
  if (bucket.getSharding() == Sharding::none)
    bytes[LinkId::Intra] = gathers * (locals - 1) * (whole / locals);
  return bytes;
}

/// Returns the bytes that a rank sends to synchronize a bucket with other
/// nodes: its part of the sum of differences to each other node, and the sum of
/// its own part.
static LinkBytes countSynchronization(BucketOp bucket, int64_t width,
                                      MeshOp mesh) {
  int64_t nodes = mesh.getNode();
  int64_t part =
      static_cast<int64_t>(bucket.getElements()) / mesh.getLocal() / nodes;
  LinkBytes bytes;
  bytes[LinkId::Inter] = (nodes - 1) * part * width;
  std::optional<Wire> wire = bucket.getReduceWire();
  bytes[LinkId::Inter] += isQuantized(wire)
                              ? (nodes - 1) * countQuantized(*wire, part)
                              : (nodes - 1) * part * width;
  if (wire == Wire::coded)
    bytes[LinkId::Inter] += countHeaders(nodes - 1, part * width);
  return bytes;
}

/// Returns the bytes of one rank.
static LinkBytes getInnerForm(BucketOp bucket, const BucketUsage &usage,
                              Role role, MeshOp mesh, int64_t uses,
                              bool hasSeveral) {
  int64_t nodes = mesh.getNode(), locals = mesh.getLocal();
  int64_t elements = bucket.getElements();
  int64_t gathered = elements * elementBytes(bucket.getWire());
  LinkBytes bytes;
  if (uses > 0) {
    Counts counts = runsBetweenSteps(role)
                        ? countBetweenSteps(bucket, role, uses, hasSeveral)
                        : countFetches(bucket, role, uses, hasSeveral);
    if (usage.crosses)
      addCrossing(counts, bucket, role);
    if (nodes == 1) // there is no slice to keep: `host` acts like `drop`
      counts.stores = counts.loads = 0;
    if (bucket.getSharding() != Sharding::world)
      counts.interGathers = 0;
    if (bucket.getSharding() == Sharding::none)
      counts.intraGathers = 0;
    if (bucket.getSharding() == Sharding::world &&
        gathersInOneStep(bucket, mesh)) {
      bytes = sendFlat(counts.intraGathers, gathered, mesh);
    } else {
      bytes[LinkId::Inter] =
          counts.interGathers * (nodes - 1) * (gathered / nodes / locals);
      bytes[LinkId::Intra] =
          counts.intraGathers * (locals - 1) * (gathered / locals);
      // The gathers that fill the slice in host memory are the ones that refer
      // to it.
      if (gathersDeltas(bucket))
        bytes[LinkId::Inter] += countHeaders(counts.stores * (nodes - 1),
                                             gathered / nodes / locals);
    }
    bytes[LinkId::H2D] = counts.loads * (gathered / locals);
    bytes[LinkId::D2H] = counts.stores * (gathered / locals);
  }
  int64_t reduced = elements * usage.gradientBytes;
  Counts counts = countReductions(bucket, role, hasSeveral, mesh);
  if (reducesFlat(bucket, mesh)) {
    bytes.add(sendFlat(counts.interReductions, reduced, mesh));
  } else {
    bytes[LinkId::Intra] +=
        counts.intraReductions * (locals - 1) * (reduced / locals);
    bytes[LinkId::Inter] += counts.interReductions * (nodes - 1) *
                            (isQuantized(bucket.getReduceWire())
                                 ? countQuantized(*bucket.getReduceWire(),
                                                  elements / nodes / locals)
                                 : reduced / nodes / locals);
    if (bucket.getReduceWire() == Wire::coded && usage.gradientBytes)
      bytes[LinkId::Inter] += countHeaders(counts.interReductions * (nodes - 1),
                                           reduced / nodes / locals);
  }
  if (usage.gradientBytes == 0)
    return bytes;
  bytes.add(countGradientGathers(bucket, counts.interReductions, mesh));
  int64_t sum = elements * static_cast<int64_t>(sizeof(float)) / locals;
  bytes[LinkId::H2D] += counts.sumLoads * sum;
  bytes[LinkId::D2H] += counts.sumStores * sum;
  return bytes;
}

/// Adds the bytes of an update that only some steps make, which synchronizes
/// nodes, to the other bytes.
static LinkBytes getClosedForm(BucketOp bucket, const BucketUsage &usage,
                               Role role, MeshOp mesh, int64_t uses,
                               bool hasSeveral) {
  LinkBytes bytes;
  bool isUpdateAlone = runsInSomeSteps(role) && !isMicrobatch(role);
  if (!isUpdateAlone)
    bytes =
        getInnerForm(bucket, usage, getInnerRole(role), mesh, uses, hasSeveral);
  if (runsInSomeSteps(role) && usage.differenceBytes)
    bytes.add(countSynchronization(bucket, usage.differenceBytes, mesh));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// The use of each link, as messages put it.
static constexpr LinkArray<const char *> kUseOfLinks = {
    {"sends between nodes", "sends within the node", "loads from host memory",
     "stores to host memory"}};

static LogicalResult compare(BucketOp bucket, func::FuncOp function,
                             const BucketUsage &usage,
                             const LinkBytes &expected, int64_t uses) {
  for (LinkId link : kLinks) {
    uint64_t want = expected[link], have = usage.bytes[link];
    if (want == have)
      continue;
    InFlightDiagnostic diag = bucket.emitOpError("expected ")
                              << describeBucket(bucket) << " with residency '"
                              << stringifyResidency(*bucket.getResidency())
                              << "'";
    if (auto carry = bucket.getCarry())
      diag << ", carry '" << stringifyResidency(*carry) << "'";
    if (auto accumulation = bucket.getAccumulation())
      diag << ", accumulation '" << stringifyAccumulation(*accumulation) << "'";
    if (auto collectives = bucket.getCollectives())
      diag << ", collectives '" << stringifyCollectives(*collectives) << "'";
    diag << " and " << uses << " live ranges to mean that a rank "
         << kUseOfLinks[link] << " " << want << " bytes in @"
         << function.getSymName() << ", got " << have;
    Operation *example = usage.examples[link];
    diag.attachNote(example ? example->getLoc() : function.getLoc())
        << (example ? "for one, here" : "in this function");
    return diag;
  }
  return success();
}

/// Adds the bytes of an update on the host: the gradient and, if there is no
/// master, the shard go there, and the new shard comes from there.
static void addHostUpdate(BucketOp bucket, MeshOp mesh, LinkBytes &bytes) {
  RankedTensorType shard = getStateType(bucket, StateRole::shard, mesh);
  bytes[LinkId::D2H] += shard.getNumElements() * 4;
  if (!bucket.getMaster())
    bytes[LinkId::D2H] += byteSize(shard);
  bytes[LinkId::H2D] += byteSize(shard);
}

LogicalResult fcdp::verifyClosedForms(ModuleOp module) {
  MeshOp mesh = getMesh(module);
  SymbolTable symbols(module);
  llvm::DenseMap<StringAttr, StringAttr> caches;
  // The states that an update loads from other memory and stores there again.
  llvm::DenseMap<StringAttr, uint64_t> streamed;
  llvm::DenseSet<StringAttr> crossing;
  for (auto state : module.getOps<StateOp>()) {
    StringAttr bucket = state.getBucketAttr().getAttr();
    caches[state.getSymNameAttr()] = bucket;
    if (state.getRole() == StateRole::prefetched)
      crossing.insert(bucket);
    if (isOptimizerState(state.getRole()) && state.getArena() != Arena::device)
      streamed[bucket] += byteSize(state.getTensorType());
  }

  std::vector<std::pair<func::FuncOp, BucketUsages>> functions;
  llvm::DenseMap<StringAttr, int64_t> uses;
  bool hasSeveral = false;
  for (auto function : module.getOps<func::FuncOp>()) {
    hasSeveral |= findRole(function) == Role::first_microbatch;
    auto &[op, usages] = functions.emplace_back();
    op = function;
    usages = collectUsages(function, mesh, symbols, caches);
    for (const auto &[name, usage] : usages)
      uses[name] = std::max(uses[name], usage.rangeCount);
  }
  for (auto bucket : module.getOps<BucketOp>()) {
    if (!bucket.getResidency())
      continue; // nothing was decided that could be compared
    StringAttr name = bucket.getSymNameAttr();
    for (auto &[function, usages] : functions) {
      Role role = *findRole(function);
      BucketUsage usage = usages.lookup(name);
      usage.crosses = crossing.contains(name);
      // @init uses nothing itself; other functions use the copies that it
      // fills.
      int64_t ranges = runsModel(role) ? usage.rangeCount : uses.lookup(name);
      LinkBytes expected =
          getClosedForm(bucket, usage, role, mesh, ranges, hasSeveral);
      if (usage.isUpdated && bucket.getUpdatedOnHost()) {
        addHostUpdate(bucket, mesh, expected);
      } else if (usage.isUpdated) {
        expected[LinkId::H2D] += streamed.lookup(name);
        expected[LinkId::D2H] += streamed.lookup(name);
      }
      if (failed(compare(bucket, function, usage, expected, ranges)))
        return failure();
    }
  }
  return success();
}
