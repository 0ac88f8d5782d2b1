// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/HiddenMatrices.h"
#include "fcdp/Analysis/LiveRanges.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Transforms/Options/GroupSpec.h"
#include "fcdp/Transforms/Options/OptimizerSpec.h"
#include "fcdp/Transforms/Passes.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace fcdp {
#define GEN_PASS_DEF_SHARDPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
constexpr llvm::StringLiteral kMeshName = "world";

class ShardPass : public fcdp::impl::ShardPassBase<ShardPass> {
public:
  using ShardPassBase::ShardPassBase;
  void runOnOperation() override;

private:
  FailureOr<SmallVector<func::FuncOp>> checkInput();
  void insertMesh();
  void insertGathers(func::FuncOp function);
  void insertReductions(func::FuncOp step);
  LogicalResult readOptimizers(func::FuncOp step);
  LogicalResult chooseOptimizers(func::FuncOp step, const OptimizerSpec &spec,
                                 ArrayRef<GroupSpec> groups);
  FailureOr<Attribute> chooseOptimizer(ParameterOp parameter, bool isFirst,
                                       const OptimizerSpec &spec,
                                       const GroupSpec *group);
  void makeFamily(ArrayRef<func::FuncOp> steps, func::FuncOp evaluation);
  func::FuncOp makeFunction(OpBuilder &builder, VariantRole which,
                            func::FuncOp body, int64_t variants);

  ArrayAttr bothAxes() {
    return ArrayAttr::get(&getContext(),
                          {AxisAttr::get(&getContext(), Axis::node),
                           AxisAttr::get(&getContext(), Axis::local)});
  }
  FlatSymbolRefAttr meshName() {
    return FlatSymbolRefAttr::get(&getContext(), kMeshName);
  }

  /// What updates each trained parameter.
  llvm::DenseMap<StringAttr, Attribute> optimizers;
};
} // namespace

FailureOr<SmallVector<func::FuncOp>> ShardPass::checkInput() {
  ModuleOp module = getOperation();
  FailureOr<SmallVector<func::FuncOp>> steps = requireSteps(module);
  if (failed(steps))
    return failure();
  if (failed(checkOptions(module, nodes, ranksPerNode, microBatches, clipNorm)))
    return failure();
  return steps;
}

void ShardPass::insertMesh() {
  OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
  MeshOp::create(builder, getOperation().getLoc(), kMeshName, nodes,
                 ranksPerNode);
}

/// Clones `views` between a read of a parameter and `operand` in front of the
/// operand's owner, on top of `whole` in place of the read.
static void cloneViewsTo(OpOperand &operand, Value whole,
                         const llvm::DenseSet<Operation *> &views) {
  SmallVector<Operation *> chain;
  Value root = operand.get();
  for (; views.contains(root.getDefiningOp());
       root = chain.back()->getOperand(0))
    chain.push_back(root.getDefiningOp());
  OpBuilder builder(operand.getOwner());
  IRMapping mapping;
  mapping.map(root, whole);
  for (Operation *view : llvm::reverse(chain))
    builder.clone(*view, mapping);
  operand.set(mapping.lookup(operand.get()));
}

/// One gather per parameter and live range, in front of its first use there.
void ShardPass::insertGathers(func::FuncOp function) {
  SymbolTableCollection symbols;
  llvm::DenseMap<std::pair<Operation *, int64_t>, Value> gathered;
  LiveRanges ranges = findLiveRanges(function, symbols);
  for (ParameterUse &use : ranges.uses) {
    Value &whole = gathered[{use.parameter, use.range}];
    if (!whole) {
      OpBuilder builder(use.operand->getOwner());
      RankedTensorType type = use.parameter.getTensorType();
      Location loc = use.operand->getOwner()->getLoc();
      auto name = FlatSymbolRefAttr::get(use.parameter.getSymNameAttr());
      auto shard = ReadShardOp::create(
          builder, loc, ShardType::get(&getContext(), type), name);
      whole =
          AllGatherOp::create(builder, loc, type, shard, name, meshName(),
                              bothAxes(), builder.getI64IntegerAttr(use.range),
                              FlatSymbolRefAttr(), StreamAttr(), BufferAttr());
    }
    cloneViewsTo(*use.operand, whole, ranges.views);
  }
  // The reads and the views on them are dead now; uses come before definitions.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (op.use_empty() &&
        (isa<ReadParameterOp>(op) || ranges.views.contains(&op)))
      op.erase();
}

/// Reduces each gradient where it is made.
void ShardPass::insertReductions(func::FuncOp step) {
  for (GradientOp gradient :
       llvm::make_early_inc_range(step.getOps<GradientOp>())) {
    OpBuilder builder(gradient);
    if (Operation *producer = gradient.getValue().getDefiningOp())
      builder.setInsertionPointAfter(producer);
    auto type = cast<RankedTensorType>(gradient.getValue().getType());
    auto shard = ReduceScatterOp::create(
        builder, gradient.getLoc(), ShardType::get(&getContext(), type),
        gradient.getValue(), gradient.getParameterAttr(), meshName(),
        bothAxes(), StreamAttr(), BufferAttr(), BufferAttr());
    AccumulateOp::create(builder, gradient.getLoc(), shard,
                         gradient.getParameter(), Accumulate::overwrite);
    gradient.erase();
  }
}

/// Makes the function that is `which` with a copy of the body of `body`, or
/// with an empty one.
func::FuncOp ShardPass::makeFunction(OpBuilder &builder, VariantRole which,
                                     func::FuncOp body, int64_t variants) {
  auto function = func::FuncOp::create(builder, getOperation().getLoc(),
                                       getFunctionName(which, variants),
                                       builder.getFunctionType({}, {}));
  setRole(function, which.role);
  if (variants > 1 && isMicrobatch(which.role))
    setVariant(function, which.variant);
  if (body) {
    IRMapping mapping;
    body.getBody().cloneInto(&function.getBody(), mapping);
  } else {
    OpBuilder inside = OpBuilder::atBlockBegin(function.addEntryBlock());
    func::ReturnOp::create(inside, function.getLoc());
  }
  return function;
}

static OptimizerAttrInterface settingsOf(Attribute optimizer) {
  return cast<OptimizerAttrInterface>(optimizer);
}

/// Returns the parameters that `optimizer` updates unless groups say otherwise:
/// with Muon the matrices of hidden layers, and with moments in 8 bits what has
/// enough elements, as torchao's does.
static llvm::DenseSet<StringAttr> findUpdated(func::FuncOp step,
                                              Attribute optimizer) {
  if (isa<MuonAttr>(optimizer))
    return findHiddenMatrices(step);
  constexpr int64_t least = 4096;
  llvm::DenseSet<StringAttr> updated;
  for (auto parameter : step->getParentOfType<ModuleOp>().getOps<ParameterOp>())
    if (RankedTensorType type = parameter.getTensorType();
        settingsOf(optimizer).canUpdate(type) &&
        (!isa<AdamW8bitAttr>(optimizer) || type.getNumElements() >= least))
      updated.insert(parameter.getSymNameAttr());
  return updated;
}

/// Returns the optimizer of the group, or else the first one for what it
/// updates and the other one for the rest.
FailureOr<Attribute> ShardPass::chooseOptimizer(ParameterOp parameter,
                                                bool isFirst,
                                                const OptimizerSpec &spec,
                                                const GroupSpec *group) {
  if (!group || group->optimizer.empty())
    return isFirst ? spec.first : spec.rest;
  auto named = [&](Attribute optimizer) {
    return settingsOf(optimizer).getName() == group->optimizer;
  };
  if (!named(spec.first) && named(spec.rest))
    return spec.rest;
  if (!named(spec.first))
    return getOperation().emitError("group: expected an optimizer of '")
           << optimizer << "', got '" << group->optimizer << "'";
  if (!settingsOf(spec.first).canUpdate(parameter.getTensorType()))
    return parameter.emitError("group: '")
           << group->optimizer << "' cannot update " << parameter.getNames()[0]
           << " of type " << parameter.getTensorType();
  return spec.first;
}

LogicalResult ShardPass::chooseOptimizers(func::FuncOp step,
                                          const OptimizerSpec &spec,
                                          ArrayRef<GroupSpec> groups) {
  ModuleOp module = getOperation();
  llvm::DenseSet<StringAttr> updated = findUpdated(step, spec.first);
  bool isUsed = false, isTrained = false;
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (!parameter.getTrainable())
      continue;
    StringAttr name = parameter.getSymNameAttr();
    const GroupSpec *found = findGroup(parameter, groups);
    FailureOr<Attribute> chosen =
        chooseOptimizer(parameter, updated.contains(name), spec, found);
    if (failed(chosen))
      return failure();
    optimizers[name] = *chosen;
    isTrained = true;
    isUsed |= *chosen == spec.first;
    if (GroupAttr settings = makeGroup(found, *chosen);
        settings && !parameter.getGroup())
      parameter.setGroupAttr(settings);
  }
  if (isTrained && !isUsed)
    return module.emitError("optimizer: '")
           << settingsOf(spec.first).getName() << "' would update nothing: "
           << (isa<MuonAttr>(spec.first)
                   ? "no trained parameter is a matrix of a hidden layer, "
                     "which "
                     "embeddings and heads are not"
                   : "no trained parameter has 4096 elements or more in whole "
                     "blocks of 256")
           << "; a group may have 'optimizer'";
  return success();
}

/// Chooses the optimizer of each trained parameter, and gives parameters the
/// groups of the option; groups that are there stay.
LogicalResult ShardPass::readOptimizers(func::FuncOp step) {
  ModuleOp module = getOperation();
  llvm::Expected<OptimizerSpec> spec =
      parseOptimizers(optimizer, &getContext());
  if (!spec)
    return module.emitError() << llvm::toString(spec.takeError());
  llvm::Expected<SmallVector<GroupSpec>> groups = parseGroups(group);
  if (!groups)
    return module.emitError() << llvm::toString(groups.takeError());
  if (failed(checkPatterns(module, *groups)))
    return failure();
  return chooseOptimizers(step, *spec, *groups);
}

/// Replaces @step and @evaluate, if there is one, by the family of functions.
void ShardPass::makeFamily(ArrayRef<func::FuncOp> steps,
                           func::FuncOp evaluation) {
  func::FuncOp step = steps.front();
  OpBuilder builder(step);
  bool isScaled = !step.getOps<ReadLossScaleOp>().empty();
  auto variants = static_cast<int64_t>(steps.size());
  func::FuncOp update;
  for (VariantRole which :
       StepFamily(microBatches, !!evaluation, variants).getVariantRoles()) {
    func::FuncOp body = isMicrobatch(which.role)   ? steps[which.variant]
                        : isEvaluation(which.role) ? evaluation
                                                   : func::FuncOp();
    func::FuncOp function = makeFunction(builder, which, body, variants);
    if (which.role == Role::update)
      update = function;
    for (auto accumulate : function.getOps<AccumulateOp>())
      accumulate.setMode(isFirstOfStep(which.role) ? Accumulate::overwrite
                                                   : Accumulate::add);
  }
  OpBuilder body = OpBuilder::atBlockBegin(&update.front());
  if (isScaled)
    UnscaleGradientsOp::create(body, step.getLoc());
  double scale = 1.0 / static_cast<double>(nodes * ranksPerNode * microBatches);
  if (clipNorm > 0)
    ClipGradientsOp::create(body, step.getLoc(), llvm::APFloat(clipNorm),
                            llvm::APFloat(scale));
  for (auto parameter : getOperation().getOps<ParameterOp>())
    if (parameter.getTrainable())
      ShardUpdateOp::create(body, parameter.getLoc(), parameter.getSymName(),
                            llvm::APFloat(scale),
                            optimizers.lookup(parameter.getSymNameAttr()));
  for (func::FuncOp body : steps)
    body.erase();
  if (evaluation)
    evaluation.erase();
}

void ShardPass::runOnOperation() {
  FailureOr<SmallVector<func::FuncOp>> steps = checkInput();
  if (failed(steps))
    return signalPassFailure();
  if (failed(readOptimizers(steps->front())))
    return signalPassFailure();
  func::FuncOp evaluation = findEvaluation(getOperation());
  insertMesh();
  for (func::FuncOp step : *steps) {
    insertGathers(step);
    insertReductions(step);
  }
  if (evaluation)
    insertGathers(evaluation);
  makeFamily(*steps, evaluation);
  setMicroBatches(getOperation(), microBatches);
  setPhase(getOperation(), Phase::sharded);
}
