// SPDX-License-Identifier: Apache-2.0
//
// Checks the functions of a step together, in every phase from sharded on.

#include "VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fcdp;

/// Checks that `function` has a role, a variant if it is one of several, and
/// the name that follows from both.
static LogicalResult verifyName(func::FuncOp function, int64_t variants,
                                int64_t fragments) {
  std::optional<Role> role = findRole(function);
  int64_t count = role && isOuter(*role) ? fragments : variants;
  bool hasVariant = role && count > 1 && isNumbered(*role);
  if (role && findVariant(function).has_value() == hasVariant &&
      function.getSymName() == getFunctionName(getMember(function), count))
    return success();
  return function.emitError("expected a role")
         << (count > 1 ? ", and a variant of a micro-batch or a fragment, that "
                         "are"
                       : " that is")
         << " the function's name";
}

/// Checks that the roles of the functions form a family.
static LogicalResult verifyFamily(ModuleOp module) {
  SmallVector<FamilyMember> roles;
  int64_t variants = countVariants(module);
  int64_t fragments = countFragments(module);
  if (variants > int64_t(llvm::range_size(module.getOps<func::FuncOp>())))
    return module.emitError("expected a function for each of ")
           << variants << " variants";
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(verifyName(function, variants, fragments)))
      return failure();
    if (!function.getBody().hasOneBlock())
      return function.emitError("expected one block");
    roles.push_back(getMember(function));
  }
  llvm::sort(roles);
  const int64_t microBatches = getMicroBatches(module);
  OuterAttr outer = getOuter(module);
  const bool overlapsOuter = outer && outer.getOverlap();
  for (bool evaluates : {false, true}) {
    SmallVector<FamilyMember> expected =
        StepFamily(microBatches, evaluates, variants, fragments, overlapsOuter)
            .getMembers();
    llvm::sort(expected);
    if (roles == expected)
      return success();
  }
  return module.emitError("expected @init, @update, ")
         << (microBatches == 1
                 ? "@only_microbatch"
                 : "@first_microbatch, @next_microbatch and @last_microbatch")
         << (variants > 1 ? " of each variant" : "")
         << ", and both or none of @first_evaluation and @next_evaluation, as "
            "'fcdp.micro_batches' is "
         << microBatches
         << (!fragments          ? ""
             : !overlapsOuter    ? "; and @outer_update"
             : microBatches == 1 ? "; and @only_outer_microbatch"
                                 : "; and @last_outer_microbatch")
         << (fragments ? " of each fragment of 'fcdp.outer'" : "");
}

/// Checks that, if there are outer steps, a bucket has their states and is in
/// one of their fragments.
static LogicalResult verifyOuterStates(BucketOp bucket,
                                       function_ref<bool(StateRole)> hasState) {
  auto outer = getOuter(bucket->getParentOfType<ModuleOp>());
  std::optional<uint64_t> fragment = bucket.getOuter();
  if (bucket.getTrainable() && fragment.has_value() != !!outer)
    return bucket.emitOpError("expected ")
           << (outer ? "a fragment 'outer', as" : "no 'outer', unless")
           << " the module has 'fcdp.outer'";
  if (!fragment || !outer)
    return success();
  if (*fragment >= static_cast<uint64_t>(outer.getFragments()))
    return bucket.emitOpError("expected 'outer' below the ")
           << outer.getFragments() << " fragments of 'fcdp.outer', got "
           << *fragment;
  for (StateRole role : outer.getStates())
    if (!hasState(role))
      return bucket.emitOpError("expected a state '")
             << stringifyStateRole(role) << "' of it";
  return success();
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
    if (failed(verifyOuterStates(bucket, has)))
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

using Counts = llvm::DenseMap<StringAttr, int>;

/// Returns how many operations `OpTy` of `function` have each target.
template <typename OpTy>
static Counts countTargets(func::FuncOp function) {
  Counts counts;
  for (auto op : function.getOps<OpTy>())
    ++counts[op.getTargetAttr().getAttr()];
  return counts;
}

static Counts countLoads(func::FuncOp function) {
  Counts counts;
  for (auto load : function.getOps<CacheLoadOp>())
    ++counts[load.getSourceAttr().getAttr()];
  return counts;
}

static LogicalResult verifyCount(func::FuncOp function, StringRef what,
                                 StringAttr target, int expected, int count) {
  if (count == expected)
    return success();
  return function.emitError("expected ")
         << (expected ? "one " : "no ") << what << " of @" << target.getValue()
         << ", got " << count;
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

/// Checks that each trained bucket is updated once.
static LogicalResult verifyUpdates(func::FuncOp function,
                                   ArrayRef<StringAttr> trained) {
  Counts counts = countTargets<ShardUpdateOp>(function);
  for (StringAttr target : trained)
    if (failed(
            verifyCount(function, "update", target, 1, counts.lookup(target))))
      return failure();
  return success();
}

/// Checks that gradients are unscaled and clipped only in @update, each once,
/// and before they are used.
static LogicalResult verifyGradientUses(func::FuncOp function) {
  bool isUsed = false, isClipped = false, isUnscaled = false;
  for (Operation &op : function.front()) {
    isUsed |= isa<ShardUpdateOp>(op);
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

/// Checks that a function which synchronizes nodes updates each bucket of its
/// fragment once. If it is not a micro-batch, it must do nothing else.
static LogicalResult verifyOuterUpdate(ModuleOp module, func::FuncOp function) {
  if (!isOuter(getRole(function)))
    return success();
  for (Operation &op : function.front())
    if (!isMicrobatch(getRole(function)) &&
        !isa<OuterDifferenceOp, OuterUpdateOp, CollectiveOpInterface, RecordOp,
             WaitOp, ReleaseOp, func::ReturnOp>(op))
      return op.emitOpError("may not appear in @") << function.getSymName();
  Counts counts = countTargets<OuterUpdateOp>(function);
  for (auto bucket : module.getOps<BucketOp>()) {
    bool isOf =
        bucket.getOuter() == std::optional<uint64_t>(getNumber(function));
    StringAttr name = bucket.getSymNameAttr();
    if (failed(verifyCount(function, "outer update", name, isOf,
                           counts.lookup(name))))
      return failure();
  }
  return success();
}

/// Checks that an evaluation does not change gradients and parameters.
static LogicalResult verifyChangesNothing(func::FuncOp function) {
  for (Operation &op : function.front())
    if (isa<AccumulateOp, ShardUpdateOp, WriteBufferOp>(op) || asReduction(&op))
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
  PartialSums partialSums = findPartialSums(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    if (isMicrobatch(getRole(function)) &&
        failed(verifySums(function, trained, partialSums)))
      return failure();
    if (isEvaluation(getRole(function)) &&
        failed(verifyChangesNothing(function)))
      return failure();
    if (failed(verifyGradientUses(function)) ||
        failed(verifyOuterUpdate(module, function)))
      return failure();
    if (function.getSymName() == stringifyRole(Role::update) &&
        failed(verifyUpdates(function, trained)))
      return failure();
  }
  if (failed(verifyUpdate(module)) || failed(verifyLossScale(module)))
    return failure();
  return verifyLossWeight(module);
}
