// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/StepBound.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Accesses.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Simulation/StepProgram.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

using namespace mlir;
using namespace fcdp;

namespace {
/// Selects the shard of a bucket or parameter, or its gradient accumulator.
enum class Part : uint8_t { content, sum };
/// Identifies memory that outlives a function.
using StateKey = std::pair<StringAttr, Part>;

StateKey keyOf(const Access &access) {
  return {access.state, access.isSumOf ? Part::sum : Part::content};
}

/// Returns whether a schedule keeps the order of `op` relative to others of its
/// kind.
bool keepsOrder(Operation *op) { return isa<aten::CallOp, PackOp>(op); }

/// An operation of the step, with the indices of the work that it depends on.
struct Work {
  Operation *op;
  SmallVector<uint32_t, 4> needed;
};

/// Collects the work of one period in a long run of steps: from the update of
/// the bucket that a step gathers first to the same update in the next step.
class PeriodBuilder {
public:
  PeriodBuilder(ModuleOp module, llvm::function_ref<Cost(Operation *)> costOf)
      : accesses(module), costOf(costOf) {}
  void add(func::FuncOp function);
  DependenceGraph take();

private:
  void add(Operation *op);
  void findFirst();
  std::vector<bool> findInside() const;
  std::vector<bool> findAwaited() const;

  Accesses accesses;
  llvm::function_ref<Cost(Operation *)> costOf;
  std::vector<Work> work;
  /// The index of the work that defines each value of this function.
  llvm::DenseMap<Value, uint32_t> makers;
  llvm::DenseMap<StateKey, uint32_t> writers;
  /// The latest operator or pack. They run in program order.
  std::optional<uint32_t> before;

  /// The first read of content that the step updates, the matching update, and
  /// the streams of the gathers of that bucket.
  uint32_t firstRead = 0, firstUpdate = 0;
  llvm::SmallDenseSet<Stream> firstStreams;
};
} // namespace

void PeriodBuilder::add(Operation *op) {
  SmallVector<uint32_t, 4> needed;
  if (!op->hasTrait<OrdersStreams>())
    for (Value operand : op->getOperands())
      if (auto it = makers.find(operand); it != makers.end())
        needed.push_back(it->second);
  SmallVector<Access> all = accesses.get(op);
  for (const Access &access : all)
    if (auto it = writers.find(keyOf(access));
        it != writers.end() && !access.isWrite)
      needed.push_back(it->second);
  uint32_t index = work.size();
  if (keepsOrder(op)) {
    if (before)
      needed.push_back(*before);
    before = index;
  }
  work.push_back({op, std::move(needed)});
  for (Value result : op->getResults())
    makers[result] = index;
  for (const Access &access : all)
    if (access.isWrite)
      writers[keyOf(access)] = index;
}

void PeriodBuilder::add(func::FuncOp function) {
  makers.clear();
  for (Operation &op : function.front().without_terminator())
    add(&op);
}

/// Returns the bucket or parameter whose content `op` reads, or null.
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
    if (isa<ShardUpdateOp, LoadShardOp>(one.op))
      updates[getStorage(one.op)] = i;
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
    if (CollectiveOpInterface gather = asGather(one.op);
        gather && i > firstRead && i < firstUpdate &&
        gather.getSourceAttr() == getStorage(work[firstUpdate].op))
      firstStreams.insert(chooseStream(gather));
}

/// Finds the work that cannot begin before the period: compute, all work that
/// depends on it, and gathers after the first gather of their stream.
std::vector<bool> PeriodBuilder::findInside() const {
  std::vector<bool> inside;
  for (auto [i, one] : llvm::enumerate(work)) {
    bool isGathered = asGather(one.op) && i > firstRead &&
                      firstStreams.contains(chooseStream(one.op));
    inside.push_back(
        isGathered || keepsOrder(one.op) ||
        llvm::any_of(one.needed, [&](uint32_t i) { return inside[i]; }));
  }
  return inside;
}

/// Finds the work that cannot end after the period: all work that its compute
/// and its end wait for, and earlier work on the streams of the reductions.
std::vector<bool> PeriodBuilder::findAwaited() const {
  std::vector<bool> awaited(work.size());
  llvm::SmallDenseSet<Stream> streams;
  for (size_t i = work.size(); i-- > 0;) {
    bool isReduced = !!asReduction(work[i].op);
    awaited[i] = awaited[i] || i == firstUpdate || keepsOrder(work[i].op) ||
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
    bool onComputeStream = chooseStream(work[i].op) == Stream::compute;
    nodes.push_back(graph.add(costOf(work[i].op), needed, onComputeStream));
  }
  return graph;
}

std::array<double, kNumResources>
fcdp::boundStep(ModuleOp module, llvm::function_ref<Cost(Operation *)> costOf) {
  llvm::SmallDenseMap<Role, func::FuncOp> functions;
  for (func::FuncOp function : getFunctionsOf(module))
    if (std::optional<Role> role = findRole(function))
      functions[*role] = function;
  PeriodBuilder period(module, costOf);
  for (Role role : StepFamily(getMicroBatches(module)).getStep())
    period.add(functions.at(role));
  return period.take().bound();
}
