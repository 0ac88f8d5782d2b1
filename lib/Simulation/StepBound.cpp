// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/StepBound.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Streams.h"
#include "fcdp/Simulation/StepProgram.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <optional>

using namespace mlir;
using namespace fcdp;

namespace {
/// Of a bucket or parameter: its shard, or its sum of gradients.
enum class Part : uint8_t { content, sum };
/// What outlives a function.
using StateKey = std::pair<StringAttr, Part>;

StateKey keyOf(FlatSymbolRefAttr symbol) {
  return {symbol.getAttr(), Part::content};
}
StateKey sumOf(FlatSymbolRefAttr bucket) {
  return {bucket.getAttr(), Part::sum};
}

struct StateUses {
  SmallVector<StateKey, 2> reads, writes;
};

/// An operation of the step and what it needs.
struct Work {
  Operation *op;
  SmallVector<uint32_t, 4> needed;
};

/// The work of one period of steps that follow each other: from the update of
/// the bucket that a step gathers first to that in the next step.
class PeriodBuilder {
public:
  explicit PeriodBuilder(llvm::function_ref<Cost(Operation *)> costOf)
      : costOf(costOf) {}
  void add(func::FuncOp function);
  DependenceGraph take();

private:
  void add(Operation *op);
  /// Of a clip_gradients: all sums that there are.
  StateUses getUses(Operation *op) const;
  void findFirst();
  std::vector<bool> findInside() const;
  std::vector<bool> findAwaited() const;

  llvm::function_ref<Cost(Operation *)> costOf;
  std::vector<Work> work;
  /// By value of this function: who made it.
  llvm::DenseMap<Value, uint32_t> makers;
  llvm::DenseMap<StateKey, uint32_t> writers;
  /// What the program has before it of the model's compute.
  std::optional<uint32_t> before;

  /// The first read of what the step updates, the streams that gather it, and
  /// its update.
  uint32_t firstRead = 0, firstUpdate = 0;
  llvm::SmallDenseSet<Stream> firstStreams;
};
} // namespace

StateUses PeriodBuilder::getUses(Operation *op) const {
  StateUses uses;
  llvm::TypeSwitch<Operation *>(op)
      .Case<ReadShardOp, ReadStateOp, CacheLoadOp, ReadBufferOp>(
          [&](auto read) { uses.reads = {keyOf(read.getSourceAttr())}; })
      .Case<CacheStoreOp, WriteBufferOp>(
          [&](auto write) { uses.writes = {keyOf(write.getTargetAttr())}; })
      .Case([&](AllGatherOp gather) {
        if (FlatSymbolRefAttr state = gather.getIntoAttr())
          uses.writes = {keyOf(state)};
      })
      .Case([&](AccumulateOp sum) {
        bool isState = isa_and_present<StateOp>(
            SymbolTable::lookupNearestSymbolFrom(sum, sum.getTargetAttr()));
        uses.writes = {isState ? keyOf(sum.getTargetAttr())
                               : sumOf(sum.getTargetAttr())};
        if (sum.getMode() == Accumulate::add)
          uses.reads = uses.writes;
      })
      .Case([&](ShardUpdateOp update) {
        uses.reads = {sumOf(update.getTargetAttr()),
                      keyOf(update.getTargetAttr())};
        uses.writes = {keyOf(update.getTargetAttr())};
      })
      .Case([&](ClipGradientsOp) {
        for (const auto &[state, writer] : writers)
          if (state.second == Part::sum)
            uses.reads.push_back(state);
        uses.writes = uses.reads;
      });
  return uses;
}

void PeriodBuilder::add(Operation *op) {
  SmallVector<uint32_t, 4> needed;
  if (!isa<RecordOp, WaitOp, ReleaseOp>(op))
    for (Value operand : op->getOperands())
      if (auto it = makers.find(operand); it != makers.end())
        needed.push_back(it->second);
  StateUses uses = getUses(op);
  for (StateKey state : uses.reads)
    if (auto it = writers.find(state); it != writers.end())
      needed.push_back(it->second);
  uint32_t index = work.size();
  if (isa<aten::CallOp, PackOp>(op)) {
    if (before)
      needed.push_back(*before);
    before = index;
  }
  work.push_back({op, std::move(needed)});
  for (Value result : op->getResults())
    makers[result] = index;
  for (StateKey state : uses.writes)
    writers[state] = index;
}

void PeriodBuilder::add(func::FuncOp function) {
  makers.clear();
  for (Operation &op : function.front().without_terminator())
    add(&op);
}

/// The bucket or parameter that `op` reads the content of; null if it reads
/// none.
static Attribute getContentRead(Operation *op) {
  if (auto read = dyn_cast<ReadShardOp>(op))
    return read.getSourceAttr();
  auto read = dyn_cast<ReadStateOp>(op);
  auto state = read ? SymbolTable::lookupNearestSymbolFrom<StateOp>(
                          read, read.getSourceAttr())
                    : StateOp();
  return state ? state.getBucketAttr() : Attribute();
}

void PeriodBuilder::findFirst() {
  llvm::SmallDenseMap<Attribute, uint32_t> updates;
  for (auto [i, one] : llvm::enumerate(work))
    if (auto update = dyn_cast<ShardUpdateOp>(one.op))
      updates[update.getTargetAttr()] = i;
  firstRead = work.size();
  firstUpdate = work.size();
  for (auto [i, one] : llvm::enumerate(work)) {
    auto it = updates.find(getContentRead(one.op));
    if (it == updates.end())
      continue;
    firstRead = i;
    firstUpdate = it->second;
    break;
  }
  for (auto [i, one] : llvm::enumerate(work))
    if (auto gather = dyn_cast<AllGatherOp>(one.op);
        gather && i > firstRead && i < firstUpdate &&
        gather.getSourceAttr() ==
            cast<ShardUpdateOp>(work[firstUpdate].op).getTargetAttr())
      firstStreams.insert(chooseStream(gather));
}

/// What does not begin before the period: compute, what needs it, and gathers
/// behind the first of their stream.
std::vector<bool> PeriodBuilder::findInside() const {
  std::vector<bool> inside;
  for (auto [i, one] : llvm::enumerate(work)) {
    bool isGathered = isa<AllGatherOp>(one.op) && i > firstRead &&
                      firstStreams.contains(chooseStream(one.op));
    inside.push_back(
        isGathered || isa<aten::CallOp, PackOp>(one.op) ||
        llvm::any_of(one.needed, [&](uint32_t i) { return inside[i]; }));
  }
  return inside;
}

/// What does not end behind the period: what its compute and its end wait for,
/// and what stands before that on the streams of reductions.
std::vector<bool> PeriodBuilder::findAwaited() const {
  std::vector<bool> awaited(work.size());
  llvm::SmallDenseSet<Stream> streams;
  for (size_t i = work.size(); i-- > 0;) {
    bool isReduced = isa<ReduceScatterOp>(work[i].op);
    awaited[i] = awaited[i] || i == firstUpdate ||
                 isa<aten::CallOp, PackOp>(work[i].op) ||
                 (isReduced && streams.contains(chooseStream(work[i].op)));
    if (!awaited[i])
      continue;
    if (isReduced)
      streams.insert(chooseStream(work[i].op));
    for (uint32_t needed : work[i].needed)
      awaited[needed] = true;
  }
  return awaited;
}

DependenceGraph PeriodBuilder::take() {
  findFirst();
  std::vector<bool> inside = findInside(), awaited = findAwaited();
  DependenceGraph graph;
  std::vector<uint32_t> nodes;
  for (size_t i = 0; i < work.size(); ++i) {
    SmallVector<uint32_t, 4> needed;
    for (uint32_t other : work[i].needed)
      if (awaited[i] && inside[other])
        needed.push_back(nodes[other]);
    Cost cost = costOf(work[i].op);
    // Compute need not wait while other streams launch what shares its memory.
    if (cost.resource == Resource::compute &&
        chooseStream(work[i].op) != Stream::compute) {
      needed = {graph.add({Resource::inter, cost.latency, 0}, needed)};
      cost.latency = 0;
    }
    nodes.push_back(graph.add(cost, needed));
  }
  return graph;
}

std::array<double, kNumResources>
fcdp::boundStep(ModuleOp module, llvm::function_ref<Cost(Operation *)> costOf) {
  llvm::SmallDenseMap<Role, func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (auto role = function->getAttrOfType<RoleAttr>(kRoleAttr))
      functions[role.getValue()] = function;
  PeriodBuilder period(costOf);
  for (Role role : StepFamily(getMicroBatches(module)).getStep())
    period.add(functions.at(role));
  return period.take().bound();
}
