// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/ResidencyAnalysis.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/EarlyUpdates.h"
#include "fcdp/Analysis/LiveRanges.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Planning/Activations/StoredActivations.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The facts about a function that do not depend on decisions.
struct FunctionCosts {
  FunctionCosts(func::FuncOp function, const CostModel &model)
      : function(function), results(measureKeptActivations(function, model)) {
    for (Operation &op : function.front())
      costs.push_back(isa<CollectiveOpInterface>(op) ? Cost()
                                                     : model.costOf(&op));
  }

  func::FuncOp function;
  /// The cost of each operation except for collectives, which depend on
  /// decisions, and the bytes of results of operators before it.
  std::vector<Cost> costs;
  std::vector<int64_t> results;
};

class ProblemBuilder {
public:
  ProblemBuilder(ModuleOp module, const CostModel &model,
                 Accumulation accumulation, const MessageCosts &messages)
      : module(module), model(model), mesh(getMesh(module)),
        accumulation(accumulation), messages(messages) {}
  void offerCollectives(ResidencyProblem &problem,
                        std::optional<Collectives> given);
  void addBuckets(ResidencyProblem &problem);
  void addUses(ResidencyProblem &problem, const FunctionCosts &costs);

private:
  ResidencyProblem::Bucket describe(BucketOp bucket);
  int64_t countStateBytes(const ResidencyProblem &problem);
  void findFetches(func::FuncOp function);
  void beginUse(Operation *fetch, StringAttr bucket);
  unsigned findRange(StringAttr bucket);
  Cost costBetweenNodes(CollectiveOpInterface reduce);
  void addReduction(ResidencyProblem &problem, CollectiveOpInterface reduce);
  void addGatherOfSum(ResidencyProblem &problem, CollectiveOpInterface gather);
  void endUses();

  ModuleOp module;
  const CostModel &model;
  MeshOp mesh;
  const Accumulation accumulation;
  const MessageCosts &messages;
  llvm::DenseMap<StringAttr, unsigned> indices;
  llvm::DenseMap<StringAttr, StringAttr> units;
  /// The update of each bucket, by its name.
  llvm::DenseMap<StringAttr, Operation *> updates;
  llvm::DenseMap<Operation *, size_t> positions;
  std::vector<ResidencyProblem::Use> uses;
  /// The operations that make a copy of a bucket, or read it on a rank that
  /// owns all of it, with that bucket.
  llvm::DenseMap<Operation *, StringAttr> bucketOfFetch;
  /// The fetch of each use.
  std::vector<Operation *> fetches;
  LiveRangeCounter ranges;
  /// The range of each bucket's last use.
  llvm::DenseMap<StringAttr, int64_t> lastRanges;
};
} // namespace

static int64_t bytesOf(BucketOp bucket, Type element) {
  return static_cast<int64_t>(bucket.getElements()) * elementBytes(element);
}

ResidencyProblem::Bucket ProblemBuilder::describe(BucketOp bucket) {
  int64_t nodes = mesh.getNode(), locals = mesh.getLocal();
  ResidencyProblem::Bucket result;
  result.name = bucket.getSymName();
  result.wholeBytes = bytesOf(bucket, bucket.getWire());
  result.sliceBytes = result.wholeBytes / locals;
  result.trainable = bucket.getTrainable();
  result.sharding = bucket.getSharding();
  result.accumulation = bucket.getAccumulation().value_or(accumulation);
  result.residency = bucket.getResidency();
  result.carry = bucket.getCarry();
  if (result.residency && !result.carry)
    result.carry = result.residency;
  if (result.sharding == Sharding::none) {
    // Each use casts the shard, or reads it.
    result.residency = result.carry = Residency::drop;
    if (bucket.getWire() == bucket.getStorage())
      result.wholeBytes = result.sliceBytes = 0;
  }
  double whole = static_cast<double>(result.wholeBytes);
  // Otherwise the shard is the slice, or the whole bucket.
  if (nodes > 1 && bucket.getSharding() == Sharding::world) {
    result.interGather =
        model.costOfGather(Axis::node, nodes, whole / (nodes * locals));
    result.flatGather = model.costOfFlatGather(whole / (nodes * locals));
    result.referringGather =
        messages.costOfReferringGather(bucket, whole / (nodes * locals), model);
  }
  if (locals > 1 && bucket.getSharding() != Sharding::none)
    result.intraGather =
        model.costOfGather(Axis::local, locals, whole / locals);
  result.hostStore = model.costOfStore(whole / locals);
  result.hostLoad = model.costOfLoad(whole / locals);
  result.sumBytes = byteSize(getStateType(bucket, StateRole::host_grad, mesh));
  result.sumStore = model.costOfStore(static_cast<double>(result.sumBytes));
  result.sumLoad = model.costOfLoad(static_cast<double>(result.sumBytes));
  if (Operation *update = updates.lookup(bucket.getSymNameAttr()))
    result.update = model.costOf(update);
  return result;
}

void ProblemBuilder::addBuckets(ResidencyProblem &problem) {
  module.walk([&](ShardUpdateOp update) {
    updates[update.getTargetAttr().getAttr()] = update;
  });
  for (auto bucket : module.getOps<BucketOp>()) {
    indices[bucket.getSymNameAttr()] = problem.buckets.size();
    units[bucket.getSymNameAttr()] = bucket.getUnitAttr();
    problem.buckets.push_back(describe(bucket));
  }
}

/// Returns the bytes on every rank that do not depend on decisions about
/// copies: shards, optimizer states and accumulators.
int64_t ProblemBuilder::countStateBytes(const ResidencyProblem &problem) {
  int64_t bytes = 0, shared = 0;
  for (auto state : module.getOps<StateOp>())
    if (state.getArena() == Arena::device)
      bytes += byteSize(state.getTensorType());
  // Gradients that are reduced once a step, and used at once, share memory.
  llvm::DenseSet<StringAttr> early = findEarlyCandidates(module);
  for (auto [bucket, described] :
       llvm::zip_equal(module.getOps<BucketOp>(), problem.buckets)) {
    SumPolicy policy = problem.getSumPolicy(described);
    bool isReducedOnce =
        problem.microBatches == 1 || policy.level != SumLevel::all;
    if (isReducedOnce && early.contains(bucket.getSymNameAttr())) {
      int64_t own = byteSize(getStateType(bucket, StateRole::grad, mesh));
      bytes -= std::min(own, shared);
      shared = std::max(own, shared);
    }
    // The module has the state of reduced gradients already.
    if (policy.level != SumLevel::all && !policy.isInHost())
      bytes += byteSize(getStateType(bucket, policy.state, mesh));
  }
  return bytes;
}

void ProblemBuilder::findFetches(func::FuncOp function) {
  for (auto view : function.getOps<ViewMemberOp>())
    if (Operation *fetch = view.getWhole().getDefiningOp())
      bucketOfFetch[fetch] = view.getBucketAttr().getAttr();
}

/// Returns the live range of the bucket's next use. A unit may have two ranges
/// in a row, in each of which a bucket is used once.
unsigned ProblemBuilder::findRange(StringAttr bucket) {
  StringAttr unit = units.lookup(bucket);
  auto [last, isFirst] = lastRanges.try_emplace(bucket);
  int64_t range = ranges.add(unit);
  if (!isFirst && last->second == range) {
    ranges.end();
    range = ranges.add(unit);
  }
  last->second = range;
  return static_cast<unsigned>(range);
}

void ProblemBuilder::beginUse(Operation *fetch, StringAttr bucket) {
  ResidencyProblem::Use use;
  use.bucket = indices.lookup(bucket);
  if (fetches.empty()) { // the operations before all gathers
    use.seconds = uses.back().seconds;
    use.deviceMemory = uses.back().deviceMemory;
  }
  use.range = findRange(bucket);
  if (fetches.empty())
    uses.pop_back();
  uses.push_back(use);
  fetches.push_back(fetch);
}

/// Returns the cost of a reduction of a node slice between nodes.
Cost ProblemBuilder::costBetweenNodes(CollectiveOpInterface reduce) {
  auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
      reduce, reduce.getSourceAttr());
  auto type = cast<RankedTensorType>(reduce.getInput().getType());
  double part = static_cast<double>(byteSize(type)) / mesh.getWorldSize();
  return messages.costOfReduction(bucket, type.getElementType(), part, model);
}

void ProblemBuilder::addReduction(ResidencyProblem &problem,
                                  CollectiveOpInterface reduce) {
  unsigned index = indices.lookup(reduce.getSourceAttr().getAttr());
  ResidencyProblem::Bucket &bucket = problem.buckets[index];
  int64_t nodes = mesh.getNode(), locals = mesh.getLocal();
  int64_t bytes = byteSize(cast<RankedTensorType>(reduce.getInput().getType()));
  auto whole = static_cast<double>(bytes);
  if (locals > 1)
    bucket.intraReduce =
        model.costOfReduction(Axis::local, locals, whole / locals);
  if (nodes > 1 && messages.sumsBetweenNodes())
    bucket.interReduce = costBetweenNodes(reduce);
  bucket.flatReduce = model.costOfFlatReduction(whole / (nodes * locals));
  uses.back().reduced.push_back(index);
  uses.back().reducedBytes += 2 * bytes; // packed, and scratch
  if (problem.getSumPolicy(bucket).isInHost())
    uses.back().reducedBytes += 3 * bucket.sumBytes; // loaded, new, and both
}

void ProblemBuilder::addGatherOfSum(ResidencyProblem &problem,
                                    CollectiveOpInterface gather) {
  ResidencyProblem::Bucket &bucket =
      problem.buckets[indices.lookup(gather.getSourceAttr().getAttr())];
  int64_t nodes = mesh.getNode(), locals = mesh.getLocal();
  auto part = static_cast<double>(
      byteSize(cast<RankedTensorType>(gather.getInput().getType())));
  if (nodes > 1 && messages.sumsBetweenNodes())
    bucket.sumInterGather = model.costOfGather(Axis::node, nodes, part);
  if (locals > 1 && bucket.sharding == Sharding::none)
    bucket.sumIntraGather =
        model.costOfGather(Axis::local, locals, part * nodes);
  // A gather that adds to an accumulator needs a buffer. A gather that starts
  // it writes to the accumulator directly.
  if (problem.getSumPolicy(bucket).level == SumLevel::all &&
      problem.microBatches > 1)
    uses.back().reducedBytes +=
        byteSize(cast<RankedTensorType>(gather.getResult().getType()));
}

/// Sets the end of each use. A copy is read until the use that contains its
/// last reader.
void ProblemBuilder::endUses() {
  for (size_t i = 0; i < fetches.size(); ++i) {
    size_t last = positions[findLastMemoryUser(fetches[i]->getResult(0))];
    uses[i].until = i;
    while (uses[i].until + 1 < fetches.size() &&
           positions[fetches[uses[i].until + 1]] < last)
      ++uses[i].until;
  }
}

void ProblemBuilder::addUses(ResidencyProblem &problem,
                             const FunctionCosts &known) {
  findFetches(known.function);
  const int64_t states = countStateBytes(problem);
  uses.emplace_back();
  for (auto [index, op] :
       llvm::enumerate(func::FuncOp(known.function).front())) {
    positions.try_emplace(&op, positions.size());
    if (StringAttr bucket = bucketOfFetch.lookup(&op))
      beginUse(&op, bucket);
    if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
      // The plan decides the costs of gathers of copies.
      if (collective.isReduction())
        addReduction(problem, collective);
      else if (collective.isOfGradient())
        addGatherOfSum(problem, collective);
    } else {
      const Cost &cost = known.costs[index];
      uses.back().seconds += cost.getTotal();
      uses.back().deviceMemory += cost.deviceMemory;
    }
    // In-flight gradients are counted with their reductions.
    uses.back().otherBytes =
        std::max(uses.back().otherBytes, states + known.results[index]);
  }
  endUses();
  if (!fetches.empty())
    problem.uses = std::move(uses);
}

/// Returns whether a flat gather or reduction is faster on idle links than one
/// in two steps.
static bool isFasterFlat(const ResidencyProblem::Bucket &bucket) {
  return bucket.flatGather.getTotal() <
             bucket.interGather.getTotal() + bucket.intraGather.getTotal() ||
         bucket.flatReduce.getTotal() <
             bucket.intraReduce.getTotal() + bucket.interReduce.getTotal();
}

void ProblemBuilder::offerCollectives(ResidencyProblem &problem,
                                      std::optional<Collectives> given) {
  if (mesh.getNode() == 1 || mesh.getLocal() == 1)
    return; // there are no two levels
  for (auto [bucket, op] :
       llvm::zip_equal(problem.buckets, module.getOps<BucketOp>())) {
    std::optional<Collectives> chosen =
        op.getCollectives() ? op.getCollectives() : given;
    if (chosen)
      bucket.collectives = {*chosen};
    else if (op.getSharding() == Sharding::world && isFasterFlat(bucket))
      bucket.collectives.push_back(Collectives::flat);
  }
}

static ResidencyProblem
makeProblem(ModuleOp module, const CostModel &model, const MemoryBudget &budget,
            Accumulation accumulation, std::optional<Collectives> collectives,
            const MessageCosts &messages, ArrayRef<FunctionCosts> functions) {
  ResidencyProblem problem;
  problem.deviceBudget = budget.device;
  problem.hostBudget = budget.host;
  problem.localRanks = getMesh(module).getLocal();
  problem.hasSeveralNodes = getMesh(module).getNode() > 1;
  problem.microBatches = getMicroBatches(module);
  problem.runsBetweenSteps = runsBetweenSteps(module);
  ProblemBuilder builder(module, model, accumulation, messages);
  builder.addBuckets(problem);
  for (const FunctionCosts &function : functions)
    builder.addUses(problem, function);
  builder.offerCollectives(problem, collectives);
  return problem;
}

std::vector<ResidencyProblem> fcdp::makeResidencyProblems(
    ModuleOp module, const CostModel &model, const MemoryBudget &budget,
    ArrayRef<Accumulation> accumulations,
    std::optional<Collectives> collectives, const MessageCosts &messages) {
  std::vector<FunctionCosts> functions;
  for (func::FuncOp function : getFirstMicrobatches(module))
    functions.emplace_back(function, model);
  std::vector<ResidencyProblem> problems;
  for (Accumulation accumulation : accumulations)
    problems.push_back(makeProblem(module, model, budget, accumulation,
                                   collectives, messages, functions));
  return problems;
}

ResidencyProblem fcdp::makeResidencyProblem(
    ModuleOp module, const CostModel &model, const MemoryBudget &budget,
    Accumulation accumulation, std::optional<Collectives> collectives,
    const MessageCosts &messages) {
  return std::move(makeResidencyProblems(module, model, budget, {accumulation},
                                         collectives, messages)
                       .front());
}
