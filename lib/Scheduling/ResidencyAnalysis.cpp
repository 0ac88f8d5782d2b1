// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Scheduling/ResidencyAnalysis.h"
#include "fcdp/Analysis/Aliases.h"

#include "dialects/Aten/Aten.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

namespace {
class ProblemBuilder {
public:
  ProblemBuilder(ModuleOp module, const CostModel &model, Accumulation accumulation)
      : module(module), model(model), mesh(getMesh(module)),
        accumulation(accumulation) {}
  void addBuckets(ResidencyProblem &problem);
  void addUses(ResidencyProblem &problem, func::FuncOp function);

private:
  ResidencyProblem::Bucket describe(BucketOp bucket);
  int64_t countStateBytes();
  void collectLifetimes(Block &block);
  void hold(Operation *from, Operation *to, int64_t bytes);
  /// Of `value`'s memory.
  Operation *findLastUser(Value value);

  ModuleOp module;
  const CostModel &model;
  MeshOp mesh;
  const Accumulation accumulation;
  llvm::DenseMap<StringAttr, unsigned> indices;
  /// The update of each bucket, by its name.
  llvm::DenseMap<StringAttr, Operation *> updates;
  llvm::DenseMap<Operation *, size_t> positions;
  /// By position: bytes whose lifetime begins there, less those that have
  /// ended.
  std::vector<int64_t> change;
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
  result.accumulation = bucket.getAccumulation().value_or(accumulation);
  result.residency = bucket.getResidency();
  result.carry = bucket.getCarry();
  if (result.residency && !result.carry)
    result.carry = result.residency;
  double whole = static_cast<double>(result.wholeBytes);
  if (nodes > 1)
    result.interGather =
        model.costOfGather(Axis::node, nodes, whole / (nodes * locals));
  if (locals > 1)
    result.intraGather =
        model.costOfGather(Axis::local, locals, whole / locals);
  result.hostStore = model.costOfStore(whole / locals);
  result.hostLoad = model.costOfLoad(whole / locals);
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
    problem.buckets.push_back(describe(bucket));
  }
}

/// Of what every rank has whatever is decided about copies: shards, optimizer
/// states and accumulators.
int64_t ProblemBuilder::countStateBytes() {
  int64_t bytes = 0;
  for (auto state : module.getOps<StateOp>())
    if (state.getArena() == Arena::device)
      bytes += byteSize(state.getTensorType());
  bool hasSeveral = false;
  if (auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttr))
    hasSeveral = count.getInt() > 1;
  for (auto bucket : module.getOps<BucketOp>()) {
    Accumulation mode = bucket.getAccumulation().value_or(accumulation);
    if (!bucket.getTrainable() || !hasSeveral || mode == Accumulation::sharded)
      continue;
    StateRole role = mode == Accumulation::node ? StateRole::node_grad
                                                : StateRole::full_grad;
    bytes += byteSize(getStateType(bucket, role, mesh));
  }
  return bytes;
}

Operation *ProblemBuilder::findLastUser(Value value) {
  Operation *last = value.getDefiningOp();
  for (Operation *user : collectMemoryUsers(value))
    if (last->isBeforeInBlock(user))
      last = user;
  return last;
}

void ProblemBuilder::hold(Operation *from, Operation *to, int64_t bytes) {
  change[positions[from]] += bytes;
  change[positions[to] + 1] -= bytes;
}

/// Of results of operators, and of gradients on their way.
void ProblemBuilder::collectLifetimes(Block &block) {
  PackOp previous;
  for (Operation &op : block) {
    if (isa<aten::CallOp>(op) && !isView(&op))
      for (Value result : op.getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType()))
          hold(&op, findLastUser(result), byteSize(type));
    auto pack = dyn_cast<PackOp>(op);
    if (!pack)
      continue;
    // Each is reduced, by way of as many bytes of scratch, until the next one
    // is ready.
    if (previous)
      hold(previous, pack, 2 * byteSize(previous.getResult().getType()));
    previous = pack;
  }
  if (previous)
    hold(previous, block.getTerminator(),
         2 * byteSize(previous.getResult().getType()));
}

void ProblemBuilder::addUses(ResidencyProblem &problem, func::FuncOp function) {
  Block &block = function.front();
  for (Operation &op : block)
    positions.try_emplace(&op, positions.size());
  change.assign(positions.size() + 1, 0);
  collectLifetimes(block);

  int64_t held = countStateBytes();
  std::vector<std::pair<size_t, AllGatherOp>> gathers;
  // What is in front of the first gather counts to its use.
  ResidencyProblem::Use start;
  auto current = [&]() -> ResidencyProblem::Use & {
    return problem.uses.empty() ? start : problem.uses.back();
  };
  for (Operation &op : block) {
    held += change[positions[&op]];
    if (auto gather = dyn_cast<AllGatherOp>(op)) {
      ResidencyProblem::Use use;
      if (problem.uses.empty())
        use = start;
      use.bucket = indices.lookup(gather.getSourceAttr().getAttr());
      gathers.push_back({positions[findLastUser(gather.getResult())], gather});
      problem.uses.push_back(use);
    } else if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
      unsigned bucket = indices.lookup(reduce.getSourceAttr().getAttr());
      current().reduced.push_back(bucket);
      double whole = byteSize(
          cast<RankedTensorType>(reduce.getInput().getType()));
      ResidencyProblem::Bucket &costs = problem.buckets[bucket];
      int64_t nodes = mesh.getNode(), locals = mesh.getLocal();
      if (locals > 1)
        costs.intraReduce =
            model.costOfReduction(Axis::local, locals, whole / locals);
      if (nodes > 1)
        costs.interReduce = model.costOfReduction(Axis::node, nodes,
                                                  whole / (nodes * locals));
    } else {
      current().seconds += model.costOf(&op).getTotal();
    }
    current().otherBytes = std::max(current().otherBytes, held);
  }
  // A copy is read until the use in which its last reader is.
  for (size_t i = 0; i < gathers.size(); ++i) {
    problem.uses[i].until = i;
    for (size_t j = i + 1; j < gathers.size() &&
                           positions[gathers[j].second] < gathers[i].first;
         ++j)
      problem.uses[i].until = j;
  }
}

ResidencyProblem fcdp::makeResidencyProblem(ModuleOp module,
                                            const CostModel &model,
                                            const ResidencyLimits &limits,
                                            Accumulation accumulation) {
  ResidencyProblem problem;
  problem.prefetch = limits.prefetch;
  problem.deviceBudget = limits.deviceBytes;
  problem.hostBudget = limits.hostBytes;
  problem.localRanks = getMesh(module).getLocal();
  if (auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttr))
    problem.microBatches = count.getInt();
  ProblemBuilder builder(module, model, accumulation);
  builder.addBuckets(problem);
  for (auto function : module.getOps<func::FuncOp>()) {
    Role role = function->getAttrOfType<RoleAttr>(kRoleAttr).getValue();
    if (role == Role::only_microbatch || role == Role::first_microbatch)
      builder.addUses(problem, function);
  }
  return problem;
}
