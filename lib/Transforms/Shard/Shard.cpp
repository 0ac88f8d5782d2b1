// SPDX-License-Identifier: Apache-2.0

#include "Options/OptimizerChoice.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/LiveRanges.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Transforms/Options/WrapSpec.h"
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
  LogicalResult wrapParameters();
  void insertMesh();
  void insertGathers(func::FuncOp function);
  void insertReductions(func::FuncOp step);
  void makeFamily(ArrayRef<func::FuncOp> steps, func::FuncOp evaluation);
  func::FuncOp makeFunction(OpBuilder &builder, FamilyMember which,
                            func::FuncOp body, int64_t count);

  ArrayAttr bothAxes() {
    return ArrayAttr::get(&getContext(),
                          {AxisAttr::get(&getContext(), Axis::node),
                           AxisAttr::get(&getContext(), Axis::local)});
  }
  FlatSymbolRefAttr meshName() {
    return FlatSymbolRefAttr::get(&getContext(), kMeshName);
  }

  UpdateByParameter updates;
  RangeEnd rangeEnd = RangeEnd::OtherUnit;
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

/// Returns the path of the module that has the parameter `name`.
static StringRef getModulePath(StringRef name) {
  return name.contains('.') ? name.rsplit('.').first : StringRef();
}

LogicalResult ShardPass::wrapParameters() {
  ModuleOp module = getOperation();
  llvm::Expected<Wrap> asked = parseWrap(wrap);
  if (!asked)
    return module.emitError("wrap: ") << toString(asked.takeError());
  if (*asked == Wrap::unit)
    return success();
  setWrap(module, *asked);
  if (*asked == Wrap::checkpoint) {
    rangeEnd = RangeEnd::Recomputation;
    return success();
  }
  for (auto parameter : module.getOps<ParameterOp>())
    parameter.setUnit(
        getModulePath(cast<StringAttr>(parameter.getNames()[0]).getValue()));
  return success();
}

void ShardPass::insertMesh() {
  OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
  MeshOp::create(builder, getOperation().getLoc(), kMeshName, nodes,
                 ranksPerNode);
}

/// Clones the `views` between a read of a parameter and `operand` before the
/// operand's owner. The clones view `whole` instead of the read.
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

/// Inserts one gather per parameter and live range, before its first use there.
void ShardPass::insertGathers(func::FuncOp function) {
  SymbolTableCollection symbols;
  llvm::DenseMap<std::pair<Operation *, int64_t>, Value> gathered;
  LiveRanges ranges = findLiveRanges(function, symbols, rangeEnd);
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
                              bothAxes(), builder.getI64IntegerAttr(use.range));
    }
    cloneViewsTo(*use.operand, whole, ranges.views);
  }
  // The reads and the views of them are dead now; uses come before definitions.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (op.use_empty() &&
        (isa<ReadParameterOp>(op) || ranges.views.contains(&op)))
      op.erase();
}

/// Reduces each gradient where it is computed.
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
        bothAxes());
    AccumulateOp::create(builder, gradient.getLoc(), shard,
                         gradient.getParameter(), Accumulate::overwrite);
    gradient.erase();
  }
}

/// Makes the function `which` with a copy of the body of `body`, or with an
/// empty one.
func::FuncOp ShardPass::makeFunction(OpBuilder &builder, FamilyMember which,
                                     func::FuncOp body, int64_t count) {
  auto function = func::FuncOp::create(builder, getOperation().getLoc(), "",
                                       builder.getFunctionType({}, {}));
  setMember(function, which, count);
  if (body) {
    IRMapping mapping;
    body.getBody().cloneInto(&function.getBody(), mapping);
  } else {
    OpBuilder inside = OpBuilder::atBlockBegin(function.addEntryBlock());
    func::ReturnOp::create(inside, function.getLoc());
  }
  return function;
}

/// Sets the groups of parameters that have none.
static void setGroups(ModuleOp module, const UpdateByParameter &updates) {
  for (auto parameter : module.getOps<ParameterOp>())
    if (GroupAttr group = updates.lookup(parameter.getSymNameAttr()).group;
        group && !parameter.getGroup())
      parameter.setGroupAttr(group);
}

/// Replaces @step and @evaluate, if there is one, by the family of functions.
void ShardPass::makeFamily(ArrayRef<func::FuncOp> steps,
                           func::FuncOp evaluation) {
  func::FuncOp step = steps.front();
  OpBuilder builder(step);
  bool isScaled = !step.getOps<ReadLossScaleOp>().empty();
  auto count = static_cast<int64_t>(steps.size());
  func::FuncOp update;
  for (FamilyMember which :
       StepFamily(microBatches, !!evaluation, count).getMembers()) {
    func::FuncOp body = isMicrobatch(which.role)       ? steps[which.number]
                        : runsBetweenSteps(which.role) ? evaluation
                                                       : func::FuncOp();
    func::FuncOp function = makeFunction(builder, which, body, count);
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
    setClipNorm(getOperation(), clipNorm);
  if (clipNorm > 0)
    ClipGradientsOp::create(body, step.getLoc(), llvm::APFloat(clipNorm),
                            llvm::APFloat(scale));
  for (auto parameter : getOperation().getOps<ParameterOp>())
    if (parameter.getTrainable())
      ShardUpdateOp::create(
          body, parameter.getLoc(), parameter.getSymName(),
          llvm::APFloat(scale),
          updates.lookup(parameter.getSymNameAttr()).optimizer);
  for (func::FuncOp body : steps)
    body.erase();
  if (evaluation)
    evaluation.erase();
}

void ShardPass::runOnOperation() {
  FailureOr<SmallVector<func::FuncOp>> steps = checkInput();
  if (failed(steps))
    return signalPassFailure();
  FailureOr<UpdateByParameter> chosen =
      chooseOptimizers(steps->front(), optimizer, group);
  if (failed(chosen))
    return signalPassFailure();
  updates = std::move(*chosen);
  setGroups(getOperation(), updates);
  if (failed(wrapParameters()))
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
