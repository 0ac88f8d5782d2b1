// SPDX-License-Identifier: Apache-2.0
//
// Checks the losses and the gradient accumulators of a step.

#include "VerifyPhase.h"
#include "dialects/Fcdp/StatePieces.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fcdp;

/// Checks that @update clips to the norm of the module, if it has one.
static LogicalResult verifyClipNorm(ModuleOp module, func::FuncOp update) {
  std::optional<double> norm = getClipNorm(module);
  auto clips = update.getOps<ClipGradientsOp>();
  if (clips.empty()) {
    if (!norm)
      return success();
    return update.emitError("expected 'fcdp.clip_gradients' to ")
           << *norm << ", as the module has 'fcdp.clip_norm'";
  }
  ClipGradientsOp clip = *clips.begin();
  double found = clip.getMaxNorm().convertToDouble();
  if (norm == found)
    return success();
  InFlightDiagnostic diag = clip.emitOpError("expected ");
  if (norm)
    diag << "to clip to " << *norm << ", as 'fcdp.clip_norm' of the module "
         << "says, got " << found;
  else
    diag << "none, as the module has no 'fcdp.clip_norm'";
  return diag;
}

/// Checks that gradients become the mean over ranks and micro-batches.
static LogicalResult verifyScale(ModuleOp module, Operation *op,
                                 const APFloat &scale) {
  double expected = 1.0 / static_cast<double>(countReducedRanks(module) *
                                              getMicroBatches(module));
  double found = scale.convertToDouble();
  if (hasOwnScale(op) || found == expected)
    return success();
  return op->emitOpError("expected a scale of ")
         << expected << ", 1 / (ranks "
         << (reducesWithinNode(module) ? "of a node " : "")
         << "x micro-batches), got " << found
         << "; a scale of your own needs the attribute 'fcdp.own_scale'";
}

/// Checks that the shard is loaded that an update on the host has changed.
static LogicalResult verifyLoaded(HostUpdateOp update) {
  auto loads = llvm::count_if(update.getUpdated().getUsers(),
                              llvm::IsaPred<LoadShardOp>);
  if (loads == 1)
    return success();
  return update.emitOpError("expected one load of the piece that it updates, "
                            "got ")
         << loads;
}

/// Checks that an update of states in other memory streams them.
static LogicalResult verifyStreamed(ShardUpdateOp update) {
  auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
      update, update.getTargetAttr());
  if (!bucket || !areStreamed(bucket) || update.isOfPiece() ||
      countShardElements(bucket) == 0 ||
      getUpdatedStates(bucket, update.getSettings()).empty())
    return success();
  return update.emitOpError("expected a piece of the shard, as the states of ")
         << update.getTargetAttr()
         << (bucket.getStates() == Arena::file ? " are in a file"
                                               : " are in host memory")
         << "; run --fcdp-stream-states";
}

using States = llvm::DenseSet<std::pair<StringAttr, StateRole>>;

/// Checks that a bucket has the states that its optimizer keeps.
static LogicalResult verifyStates(ModuleOp module, UpdateOpInterface update,
                                  const States &states) {
  StringAttr target = update.getTargetAttr().getAttr();
  if (!module.lookupSymbol<BucketOp>(target))
    return success(); // parameters have none yet
  for (StateRole role : update.getSettings().getStates())
    if (!states.contains({target, role}))
      return update->emitOpError("expected a state '")
             << stringifyStateRole(role) << "' of @" << target.getValue()
             << ", which '" << update.getSettings().getName() << "' keeps";
  return success();
}

/// Checks that only functions that run a batch have a loss, and at most one.
static LogicalResult verifyLosses(func::FuncOp function) {
  Role role = getRole(function);
  size_t most = runsModel(role) ? 1 : 0;
  auto losses = llvm::range_size(function.getOps<LossOp>());
  if (size_t(losses) <= most)
    return success();
  return function.emitError("expected ")
         << (most ? "one loss" : "no loss") << ", got " << losses;
}

LogicalResult fcdp::verifyUpdate(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(verifyLosses(function)) ||
        failed(verifyDifferences(module, function)))
      return failure();
  auto update = module.lookupSymbol<func::FuncOp>(stringifyRole(Role::update));
  if (failed(verifyClipNorm(module, update)))
    return failure();
  States states;
  for (auto state : module.getOps<StateOp>())
    states.insert({state.getBucketAttr().getAttr(), state.getRole()});
  for (auto clip : update.getOps<ClipGradientsOp>())
    if (failed(verifyScale(module, clip, clip.getScale())))
      return failure();
  for (auto function : module.getOps<func::FuncOp>())
    for (auto each : function.getOps<UpdateOpInterface>()) {
      if (failed(verifyScale(module, each, each.getScale())) ||
          failed(verifyStates(module, each, states)))
        return failure();
      if (auto onHost = dyn_cast<HostUpdateOp>(each.getOperation());
          onHost ? failed(verifyLoaded(onHost))
                 : failed(verifyStreamed(cast<ShardUpdateOp>(each))))
        return failure();
    }
  return success();
}
