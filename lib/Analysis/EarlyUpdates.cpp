// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/EarlyUpdates.h"

#include "dialects/Fcdp/StatePieces.h"

using namespace mlir;
using namespace fcdp;

using Names = llvm::DenseSet<StringAttr>;

/// Returns the buckets whose gradients `function` completes with one
/// accumulate, which is done at its end.
static Names findCompleted(func::FuncOp function) {
  llvm::DenseMap<StringAttr, int> counts;
  Names late, completed;
  for (auto sum : function.getOps<AccumulateOp>()) {
    StringAttr target = sum.getTargetAttr().getAttr();
    ++counts[target];
    if (sum.getLate())
      late.insert(target);
  }
  for (auto [target, count] : counts)
    if (count == 1 && !late.contains(target))
      completed.insert(target);
  return completed;
}

Names fcdp::findEarlyCandidates(ModuleOp module) {
  Names candidates;
  auto update = module.lookupSymbol<func::FuncOp>(stringifyRole(Role::update));
  if (!update || !update.getOps<ClipGradientsOp>().empty() ||
      !update.getOps<UnscaleGradientsOp>().empty())
    return candidates;
  SmallVector<Names> completed;
  for (auto function : module.getOps<func::FuncOp>())
    if (std::optional<Role> role = findRole(function);
        role && isLastOfStep(*role))
      completed.push_back(findCompleted(function));
  SymbolTable symbols(module);
  for (auto each : update.getOps<UpdateOpInterface>()) {
    StringAttr target = each.getTargetAttr().getAttr();
    auto bucket = symbols.lookup<BucketOp>(target);
    bool isComplete = llvm::all_of(
        completed, [&](const Names &names) { return names.contains(target); });
    if (bucket && areStreamed(bucket) && isComplete)
      candidates.insert(target);
  }
  return candidates;
}

Names fcdp::findEarlyBuckets(ModuleOp module) {
  Names early;
  for (auto function : module.getOps<func::FuncOp>())
    if (std::optional<Role> role = findRole(function);
        role && isMicrobatch(*role))
      for (auto update : function.getOps<UpdateOpInterface>())
        early.insert(update.getTargetAttr().getAttr());
  return early;
}

/// Returns the buckets whose gradients are in use over the end of a function:
/// later micro-batches add to them.
static Names findKept(ModuleOp module) {
  Names kept;
  for (auto function : module.getOps<func::FuncOp>()) {
    std::optional<Role> role = findRole(function);
    for (auto sum : function.getOps<AccumulateOp>())
      if (!role || !isLastOfStep(*role) ||
          sum.getMode() != Accumulate::overwrite)
        kept.insert(sum.getTargetAttr().getAttr());
  }
  return kept;
}

SmallVector<StateOp> fcdp::findSharedGradients(ModuleOp module) {
  SmallVector<StateOp> shared;
  Names early = findEarlyBuckets(module);
  if (early.empty())
    return shared;
  Names kept = findKept(module);
  for (auto state : module.getOps<StateOp>()) {
    StringAttr bucket = state.getBucketAttr().getAttr();
    if (state.getRole() == StateRole::grad && early.contains(bucket) &&
        !kept.contains(bucket))
      shared.push_back(state);
  }
  return shared;
}
