// SPDX-License-Identifier: Apache-2.0
//
// Checks the functions of a step together, in every phase from sharded on.

#include "TargetCounts.h"
#include "VerifyPhase.h"
#include "dialects/Fcdp/StatePieces.h"
#include "fcdp/Analysis/EarlyUpdates.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fcdp;

/// Checks that `function` has a role, a variant if it is one of several, and
/// the name that follows from both.
static LogicalResult verifyName(func::FuncOp function,
                                const StepFamily &family) {
  std::optional<Role> role = findRole(function);
  // A function without a role is reported like a micro-batch.
  int64_t count = family.countFunctions(role.value_or(Role::only_microbatch));
  bool hasVariant = role && count > 1 && isNumbered(*role);
  if (role && findVariant(function).has_value() == hasVariant &&
      function.getSymName() == getFunctionName(getMember(function), count))
    return success();
  InFlightDiagnostic diag = function.emitError("expected a role");
  if (count > 1)
    diag << ", and " << kCountedByNumbers << ", that are";
  else
    diag << " that is";
  return diag << " the function's name";
}

/// Checks that the roles of the functions form a family.
static LogicalResult verifyFamily(ModuleOp module) {
  SmallVector<FamilyMember> roles;
  int64_t variants = countVariants(module);
  if (variants > int64_t(llvm::range_size(module.getOps<func::FuncOp>())))
    return module.emitError("expected a function for each of ")
           << variants << " variants";
  const StepFamily family = getFamily(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(verifyName(function, family)))
      return failure();
    if (!function.getBody().hasOneBlock())
      return function.emitError("expected one block");
    roles.push_back(getMember(function));
  }
  llvm::sort(roles);
  SmallVector<FamilyMember> expected = family.getMembers();
  llvm::sort(expected);
  if (roles == expected)
    return success();
  return module.emitError("expected ") << family.describe();
}

/// Checks that each bucket has the states that every step uses.
static LogicalResult verifyStates(ModuleOp module) {
  llvm::DenseSet<std::pair<StringAttr, StateRole>> states;
  for (auto state : module.getOps<StateOp>())
    states.insert({state.getBucketAttr().getAttr(), state.getRole()});
  for (auto bucket : module.getOps<BucketOp>()) {
    auto has = [&](StateRole role) {
      return states.contains({bucket.getSymNameAttr(), role});
    };
    if (!has(StateRole::shard))
      return bucket.emitOpError("expected a state 'shard' of it");
    if (bucket.getTrainable() && !has(StateRole::grad))
      return bucket.emitOpError("expected a state 'grad' of it");
    if (bucket.getMaster() && !has(StateRole::master))
      return bucket.emitOpError("expected a state 'master' of it");
    if (failed(verifyStatesOfNodes(bucket, has)))
      return failure();
  }
  return success();
}

/// The accumulators that are not reduced over all ranks, by their bucket's
/// name.
using PartialSums = llvm::DenseMap<StringAttr, StateOp>;

static PartialSums findPartialSums(ModuleOp module) {
  PartialSums partialSums;
  for (auto state : module.getOps<StateOp>())
    if (getRecord(state.getRole()).kind == StateKind::sum &&
        state.getRole() != StateRole::grad)
      partialSums[state.getBucketAttr().getAttr()] = state;
  return partialSums;
}

/// Checks that the first micro-batch starts each accumulator and others add to
/// it. In the last one, a partial accumulator is reduced into the bucket's.
static LogicalResult verifyModes(func::FuncOp function,
                                 const PartialSums &partialSums) {
  Role role = getRole(function);
  bool starts = isFirstOfStep(role);
  for (auto accumulate : function.getOps<AccumulateOp>()) {
    bool isReduced = partialSums.contains(accumulate.getTargetAttr().getAttr());
    Accumulate expected =
        starts || isReduced ? Accumulate::overwrite : Accumulate::add;
    if (accumulate.getMode() != expected)
      return accumulate.emitOpError("expected '")
             << stringifyAccumulate(expected) << "' in @"
             << function.getSymName();
  }
  return success();
}

static Counts countLoads(func::FuncOp function) {
  Counts counts;
  for (auto load : function.getOps<CacheLoadOp>())
    ++counts[load.getSourceAttr().getAttr()];
  return counts;
}

/// Checks that each micro-batch except the last stores each accumulator in host
/// memory, and that each one except the first loads it.
static LogicalResult verifyHostSums(func::FuncOp function,
                                    const PartialSums &partialSums) {
  Role role = getInnerRole(getRole(function));
  bool isFirst = role == Role::first_microbatch;
  bool isLast = role == Role::last_microbatch;
  bool isNext = role == Role::next_microbatch;
  Counts stores = countTargets<CacheStoreOp>(function);
  Counts loads = countLoads(function);
  for (auto [bucket, state] : partialSums) {
    StringAttr sum = state.getSymNameAttr();
    if (state.getArena() == Arena::host &&
        (failed(verifyCount(function, "load", sum, isNext || isLast,
                            loads.lookup(sum))) ||
         failed(verifyCount(function, "store", sum, isFirst || isNext,
                            stores.lookup(sum)))))
      return failure();
  }
  return success();
}

/// Checks that a micro-batch accumulates each gradient once, and that the last
/// one reduces accumulators that are not reduced before.
static LogicalResult verifySums(func::FuncOp function,
                                ArrayRef<StringAttr> trained,
                                const PartialSums &partialSums) {
  Role role = getRole(function);
  Counts counts = countTargets<AccumulateOp>(function);
  for (StringAttr bucket : trained) {
    StateOp partialSum = partialSums.lookup(bucket);
    bool isReduced = !partialSum || isLastOfStep(role);
    if (failed(verifyCount(function, "gradient", bucket, isReduced,
                           counts.lookup(bucket))))
      return failure();
    if (!partialSum || partialSum.getArena() == Arena::host)
      continue;
    StringAttr name = partialSum.getSymNameAttr();
    if (failed(verifyCount(function, "gradient", name, 1, counts.lookup(name))))
      return failure();
  }
  return success(succeeded(verifyHostSums(function, partialSums)) &&
                 succeeded(verifyModes(function, partialSums)));
}

/// Counts the updates of each bucket. The pieces of a shard are one, in order.
static FailureOr<Counts> countUpdates(func::FuncOp function) {
  Counts counts;
  llvm::DenseMap<StringAttr, int64_t> ends;
  for (auto update : function.getOps<UpdateOpInterface>()) {
    StringAttr target = update.getTargetAttr().getAttr();
    if (!update.isOfPiece()) {
      ++counts[target];
      continue;
    }
    int64_t begin = update.getBeginAttr().getInt();
    int64_t end = update.getEndAttr().getInt();
    if (begin != ends[target])
      return update->emitOpError("expected the piece that begins at element ")
             << ends[target] << ", got " << begin;
    bool isLast = end == countShardElements(
                             SymbolTable::lookupNearestSymbolFrom<BucketOp>(
                                 update, update.getTargetAttr()));
    counts[target] += isLast;
    ends[target] = isLast ? 0 : end;
  }
  return counts;
}

/// Checks that each trained bucket is updated once in a step: by each last
/// micro-batch, or by @update.
static LogicalResult verifyUpdates(func::FuncOp function,
                                   ArrayRef<StringAttr> trained,
                                   const llvm::DenseSet<StringAttr> &early) {
  Role role = getRole(function);
  if (!isMicrobatch(role) && role != Role::update)
    return success();
  FailureOr<Counts> counted = countUpdates(function);
  if (failed(counted))
    return failure();
  Counts counts = *counted;
  for (StringAttr target : trained) {
    bool isHere =
        early.contains(target) ? isLastOfStep(role) : role == Role::update;
    if (failed(verifyCount(function, "update", target, isHere,
                           counts.lookup(target))))
      return failure();
  }
  return success();
}

/// Checks that gradients are unscaled and clipped only in @update, each once,
/// and before they are used.
static LogicalResult verifyGradientUses(func::FuncOp function, bool areEarly) {
  bool isUsed = areEarly, isClipped = false, isUnscaled = false;
  for (Operation &op : function.front()) {
    isUsed |= isa<UpdateOpInterface, StoreGradientOp>(op);
    bool clips = isa<ClipGradientsOp>(op),
         unscales = isa<UnscaleGradientsOp>(op);
    if (!clips && !unscales)
      continue;
    if (function.getSymName() != stringifyRole(Role::update))
      return op.emitOpError("may appear in @update only");
    if (clips && (isUsed || isClipped))
      return op.emitOpError("expected once, before the first update");
    if (unscales && (isUsed || isClipped || isUnscaled))
      return op.emitOpError(
          "expected once, before gradients are clipped or used");
    isClipped |= clips;
    isUnscaled |= unscales;
  }
  return success();
}

/// Checks that gradients are unscaled if and only if each micro-batch scales
/// them.
static LogicalResult verifyLossScale(ModuleOp module) {
  auto update = module.lookupSymbol<func::FuncOp>(stringifyRole(Role::update));
  bool isUnscaled = !update.getOps<UnscaleGradientsOp>().empty();
  for (auto function : module.getOps<func::FuncOp>()) {
    bool isScaled = !function.getOps<ReadLossScaleOp>().empty();
    if (isScaled != (isUnscaled && isMicrobatch(getRole(function))))
      return function.emitError("expected ")
             << (isScaled ? "no 'fcdp.read_loss_scale', as "
                          : "'fcdp.read_loss_scale', as ")
             << (!isUnscaled ? "@update has no 'fcdp.unscale_gradients'"
                 : isScaled  ? "it is no micro-batch"
                             : "@update has 'fcdp.unscale_gradients'");
  }
  return success();
}

/// Checks that a micro-batch with a loss reads the factor of its weight if and
/// only if losses are weighted.
static LogicalResult verifyLossWeight(ModuleOp module) {
  bool isWeighted = getLossWeight(module).has_value();
  for (auto function : module.getOps<func::FuncOp>()) {
    bool reads = !function.getOps<ReadLossWeightOp>().empty();
    bool hasBackward =
        isMicrobatch(getRole(function)) && !function.getOps<LossOp>().empty();
    if (reads != (isWeighted && hasBackward))
      return function.emitError("expected ")
             << (reads ? "no 'fcdp.read_loss_weight', as "
                       : "'fcdp.read_loss_weight', as ")
             << (!isWeighted ? "the module has no 'fcdp.loss_weight'"
                 : reads     ? "it is no micro-batch"
                             : "the module has 'fcdp.loss_weight'");
  }
  return success();
}

/// Returns the trained buckets or, before there are buckets, the trained
/// parameters.
static SmallVector<StringAttr> findTrained(ModuleOp module) {
  SmallVector<StringAttr> names;
  for (auto bucket : module.getOps<BucketOp>())
    if (bucket.getTrainable())
      names.push_back(bucket.getSymNameAttr());
  if (module.getOps<BucketOp>().empty())
    for (auto parameter : module.getOps<ParameterOp>())
      if (parameter.getTrainable())
        names.push_back(parameter.getSymNameAttr());
  return names;
}

/// Checks that an evaluation does not change gradients and parameters.
static LogicalResult verifyChangesNothing(func::FuncOp function) {
  for (Operation &op : function.front())
    if (isa<AccumulateOp, UpdateOpInterface, WriteBufferOp>(op) ||
        asReduction(&op))
      return op.emitOpError("may not appear in @") << function.getSymName();
  return success();
}

LogicalResult fcdp::requirePhase(ModuleOp module, Phase phase) {
  if (getPhase(module) != phase)
    return module.emitError("expected a module in phase '")
           << stringifyPhase(phase) << "'";
  if (!getMesh(module))
    return module.emitError("expected a mesh");
  if (failed(verifyFamily(module)))
    return failure();
  return verifyStates(module);
}

/// Checks the properties that hold from phase sharded on.
LogicalResult fcdp::verifySteps(ModuleOp module) {
  if (failed(requirePhase(module, *getPhase(module))) ||
      failed(verifyTokens(module)) || failed(verifyInFlightStates(module)) ||
      failed(verifyPrefetched(module)))
    return failure();
  SmallVector<StringAttr> trained = findTrained(module);
  llvm::DenseSet<StringAttr> early = findEarlyBuckets(module);
  PartialSums partialSums = findPartialSums(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    if (isMicrobatch(getRole(function)) &&
        failed(verifySums(function, trained, partialSums)))
      return failure();
    if (runsBetweenSteps(getRole(function)) &&
        failed(verifyChangesNothing(function)))
      return failure();
    if (failed(verifyGradientUses(function, !early.empty())) ||
        failed(verifySynchronization(module, function)))
      return failure();
    if (failed(verifyUpdates(function, trained, early)))
      return failure();
  }
  if (failed(verifyUpdate(module)) || failed(verifyLossScale(module)))
    return failure();
  return verifyLossWeight(module);
}
