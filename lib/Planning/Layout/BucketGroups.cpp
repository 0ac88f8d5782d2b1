// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Layout/BucketGroups.h"

#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace fcdp;

namespace {
/// The types in which functions use a parameter.
struct Usage {
  /// The wire type; null if no function gathers it.
  Type wire;
  /// The gradient's type; null if it has no gradient.
  Type gradient;
  /// The optimizer that updates it; null if none does.
  Attribute optimizer;
};
} // namespace

static StringRef nameOf(StringRef unit) { return unit.empty() ? "root" : unit; }

std::string BucketGroup::getName() const {
  std::string name = ("bucket." + nameOf(unit.getValue())).str();
  llvm::raw_string_ostream os(name);
  if (!gathered)
    os << ".unused";
  else if (storage.isUnsignedInteger(8))
    os << ".packed";
  else if (!trainable)
    os << ".frozen";
  if (wire != storage)
    os << '.' << wire;
  if (auto settings = dyn_cast_or_null<OptimizerAttrInterface>(optimizer);
      settings && settings.getNeededLayout())
    os << '.' << settings.getName();
  return name;
}

static llvm::DenseMap<StringAttr, Usage> collectUsage(ModuleOp module) {
  llvm::DenseMap<StringAttr, Usage> usage;
  module.walk([&](Operation *op) {
    if (CollectiveOpInterface gather = asGather(op))
      usage[gather.getSourceAttr().getAttr()].wire =
          cast<RankedTensorType>(gather.getResult().getType()).getElementType();
    else if (CollectiveOpInterface reduce = asReduction(op))
      usage[reduce.getSourceAttr().getAttr()].gradient =
          cast<RankedTensorType>(reduce.getInput().getType()).getElementType();
    else if (auto update = dyn_cast<ShardUpdateOp>(op))
      usage[update.getTargetAttr().getAttr()].optimizer = update.getOptimizer();
  });
  return usage;
}

/// Returns whether a decision other than the layout is made about `bucket`.
static bool isDecided(BucketOp bucket) {
  return bucket.getResidency() || bucket.getCarry() ||
         bucket.getAccumulation() || bucket.getCollectives();
}

static SmallVector<BucketGroup>
groupBuckets(ModuleOp module, const llvm::DenseMap<StringAttr, Usage> &usage) {
  SymbolTable table(module);
  SmallVector<BucketGroup> groups;
  for (auto bucket : module.getOps<BucketOp>()) {
    if (isDecided(bucket))
      continue;
    Usage use = usage.lookup(bucket.getSymNameAttr());
    BucketGroup group{
        {bucket.getStorage(), bucket.getWire(), use.gradient,
         bucket.getTrainable(), !!use.wire, bucket.getMaster().value_or(Type()),
         bucket.getReduce().value_or(Type()), use.optimizer, getLayout(bucket)},
        bucket.getUnitAttr(),
        {},
        {bucket}};
    for (auto member : bucket.getMembers().getAsRange<MemberAttr>())
      group.members.push_back(
          table.lookup<ParameterOp>(member.getParameter().getAttr()));
    groups.push_back(std::move(group));
  }
  return groups;
}

SmallVector<BucketGroup>
fcdp::collectBucketGroups(ModuleOp module, const BucketOptions &options) {
  llvm::DenseMap<StringAttr, Usage> usage = collectUsage(module);
  if (!module.getOps<BucketOp>().empty())
    return groupBuckets(module, usage);
  BucketNumbering numbering;
  SmallVector<BucketGroup> groups;
  for (auto parameter : module.getOps<ParameterOp>()) {
    Usage use = usage.lookup(parameter.getSymNameAttr());
    BucketKind kind = makeBucketKind(parameter, use.wire, use.gradient,
                                     use.optimizer, options);
    size_t number = numbering.get(parameter.getUnitAttr(), kind);
    if (number == groups.size())
      groups.push_back({kind, parameter.getUnitAttr(), {}, {}});
    groups[number].members.push_back(parameter);
  }
  return groups;
}

/// Returns the bytes that a gather of `group` carries, without padding; at most
/// INT64_MAX.
static int64_t wireBytes(const BucketGroup &group) {
  uint64_t bytes = 0, wire = elementBytes(group.wire);
  for (ParameterOp member : group.members) {
    uint64_t elements = member.getTensorType().getNumElements();
    bytes = llvm::SaturatingMultiplyAdd(elements, wire, bytes);
  }
  return static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
}

/// Returns the groups of each kind, in their order.
static auto splitKinds(MutableArrayRef<BucketGroup> groups) {
  std::map<BucketKind, SmallVector<BucketGroup *>> kinds;
  for (BucketGroup &group : groups)
    kinds[group].push_back(&group);
  return kinds;
}

/// Moves the members of `from` to `into`.
static void append(BucketGroup &into, BucketGroup &from) {
  StringRef first = nameOf(into.unit.getValue().split("..").first);
  into.unit = StringAttr::get(into.unit.getContext(),
                              first + ".." + nameOf(from.unit.getValue()));
  into.members.append(std::exchange(from.members, {}));
  into.buckets.append(from.buckets);
  llvm::sort(into.members, [](ParameterOp a, ParameterOp b) {
    return a->isBeforeInBlock(b);
  });
}

SmallVector<SmallVector<int64_t>>
fcdp::collectNeighbourBytes(MutableArrayRef<BucketGroup> groups) {
  SmallVector<SmallVector<int64_t>> bytes;
  for (auto &[kind, neighbours] : splitKinds(groups))
    bytes.push_back(
        llvm::map_to_vector(neighbours, [](const BucketGroup *group) {
          return wireBytes(*group);
        }));
  return bytes;
}

LogicalResult fcdp::mergeBucketGroups(ModuleOp module,
                                      SmallVector<BucketGroup> &groups,
                                      int64_t limit) {
  for (auto &[kind, neighbours] : splitKinds(groups)) {
    MergingProblem problem{{}, limit};
    for (BucketGroup *group : neighbours)
      problem.bytes.push_back(wireBytes(*group));
    if (llvm::Error error = problem.check())
      return module.emitError("merging buckets: ")
             << toString(std::move(error));
    MergingSolution solution = mergeBuckets(problem);
    BucketGroup *into = nullptr;
    for (auto [place, group] : llvm::enumerate(neighbours)) {
      if (place == 0 || solution.groups[place] != solution.groups[place - 1])
        into = group;
      else
        append(*into, *group);
    }
  }
  llvm::erase_if(
      groups, [](const BucketGroup &group) { return group.members.empty(); });
  return success();
}
