// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Accesses.h"

#include "fcdp/Analysis/Buffers.h"
#include "fcdp/Analysis/EarlyUpdates.h"

using namespace mlir;
using namespace fcdp;

Accesses::Accesses(ModuleOp module) {
  for (auto [name, state] : collectAccumulators(module))
    sums[name] = state.getSymNameAttr();
  // Accumulators with the same memory are one.
  SmallVector<StateOp> shared = findSharedGradients(module);
  for (StateOp state : shared)
    sums[state.getBucketAttr().getAttr()] = shared[0].getSymNameAttr();
  areStates = !sums.empty();
  if (!areStates)
    module.walk([&](AccumulateOp accumulate) {
      StringAttr target = accumulate.getTargetAttr().getAttr();
      sums[target] = target;
    });
}

/// Returns whether `op` names memory and does nothing.
static bool isStateView(Operation *op) {
  return op && op->hasTrait<RunsNothing>() && isa<StorageOpInterface>(op) &&
         op->getNumOperands() == 0;
}

static SmallVector<MemoryEffects::EffectInstance> getEffects(Operation *op) {
  SmallVector<MemoryEffects::EffectInstance> effects;
  if (auto declared = dyn_cast<MemoryEffectOpInterface>(op))
    declared.getEffects(effects);
  return effects;
}

bool Accesses::isOnAllSums(Operation *op) {
  return llvm::any_of(getEffects(op), [](const auto &effect) {
    return effect.getResource() == Accumulator::get() && !effect.getSymbolRef();
  });
}

/// Returns the name of a state or, for a copy of a piece of it, of that piece.
/// Pieces do not overlap, so they are states of their own.
static StringAttr getName(Operation *op, SymbolRefAttr symbol, bool isOnSums) {
  StringAttr name = symbol.getRootReference();
  auto of = [&](uint64_t begin) {
    return StringAttr::get(op->getContext(),
                           name.getValue() + "#" + Twine(begin));
  };
  if (auto load = dyn_cast<StateLoadOp>(op))
    return of(load.getBegin());
  if (auto store = dyn_cast<StateStoreOp>(op))
    return of(store.getBegin());
  // So are pieces of a shard that is updated on the host.
  if (auto store = dyn_cast<StoreGradientOp>(op); store && !isOnSums)
    return of(store.getBegin());
  if (auto load = dyn_cast<LoadShardOp>(op))
    return of(load.getBegin());
  return name;
}

void Accesses::addEffects(Operation *op,
                          SmallVectorImpl<Access> &accesses) const {
  for (const MemoryEffects::EffectInstance &effect : getEffects(op)) {
    bool isWrite = isa<MemoryEffects::Write>(effect.getEffect());
    bool isOnSums = effect.getResource() == Accumulator::get();
    if (!isWrite && !isa<MemoryEffects::Read>(effect.getEffect()))
      continue;
    if (SymbolRefAttr symbol = effect.getSymbolRef()) {
      StringAttr name = getName(op, symbol, isOnSums);
      StringAttr sum = isOnSums ? sums.lookup(name) : StringAttr();
      accesses.push_back({sum ? sum : name, isWrite, sum && !areStates});
    } else if (isOnSums) {
      for (const auto &[name, sum] : sums)
        accesses.push_back({sum, isWrite, !areStates});
    }
  }
}

SmallVector<Access> Accesses::get(Operation *op) const {
  SmallVector<Access> accesses;
  if (isStateView(op))
    return accesses;
  for (Value operand : op->getOperands())
    if (Operation *view = operand.getDefiningOp(); isStateView(view))
      addEffects(view, accesses);
  addEffects(op, accesses);
  return accesses;
}
