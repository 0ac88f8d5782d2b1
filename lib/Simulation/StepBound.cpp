// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/StepBound.h"

#include "fcdp/Analysis/Rematerialization.h"
#include "fcdp/Simulation/StepProgram.h"
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

class GraphBuilder {
public:
  explicit GraphBuilder(llvm::function_ref<Cost(Operation *)> costOf)
      : costOf(costOf) {}
  void add(func::FuncOp function);
  const DependenceGraph &getGraph() const { return graph; }

private:
  void add(Operation *op);
  /// Of a clip_gradients: all sums that there are.
  StateUses getUses(Operation *op) const;

  llvm::function_ref<Cost(Operation *)> costOf;
  DependenceGraph graph;
  /// By value of this function: who made it.
  llvm::DenseMap<Value, uint32_t> makers;
  llvm::DenseMap<StateKey, uint32_t> writers;
  /// What gives this function's loss, once it has been added.
  std::optional<uint32_t> forwardEnd;
};
} // namespace

StateUses GraphBuilder::getUses(Operation *op) const {
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

void GraphBuilder::add(Operation *op) {
  SmallVector<uint32_t> needed;
  if (!isa<RecordOp, WaitOp, ReleaseOp>(op))
    for (Value operand : op->getOperands())
      if (auto it = makers.find(operand); it != makers.end())
        needed.push_back(it->second);
  StateUses uses = getUses(op);
  for (StateKey state : uses.reads)
    if (auto it = writers.find(state); it != writers.end())
      needed.push_back(it->second);
  // What the backward pass computes again it could compute ahead, too, but only
  // if it kept what it is not to keep.
  if (forwardEnd && isa<aten::CallOp>(op))
    needed.push_back(*forwardEnd);
  uint32_t node = graph.add(costOf(op), needed);
  for (Value result : op->getResults())
    makers[result] = node;
  for (StateKey state : uses.writes)
    writers[state] = node;
}

void GraphBuilder::add(func::FuncOp function) {
  makers.clear();
  forwardEnd.reset();
  Operation *end = findForwardEnd(function);
  for (Operation &op : function.front().without_terminator()) {
    add(&op);
    if (&op == end)
      forwardEnd = graph.getSize() - 1;
  }
}

std::array<double, kNumResources>
fcdp::boundStep(ModuleOp module, llvm::function_ref<Cost(Operation *)> costOf) {
  llvm::SmallDenseMap<Role, func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (auto role = function->getAttrOfType<RoleAttr>(kRoleAttr))
      functions[role.getValue()] = function;
  GraphBuilder builder(costOf);
  for (Role role : getStepRoles(getMicroBatches(module)))
    builder.add(functions.at(role));
  return builder.getGraph().bound();
}
