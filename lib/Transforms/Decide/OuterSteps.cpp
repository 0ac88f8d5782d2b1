// SPDX-License-Identifier: Apache-2.0
//
// Implements DiLoCo (arXiv 2311.08105), with fragments that take turns
// (Streaming DiLoCo, arXiv 2501.18512).

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Transforms/Options/OuterSpec.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_OUTERSTEPSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class OuterStepsPass : public fcdp::impl::OuterStepsPassBase<OuterStepsPass> {
public:
  using OuterStepsPassBase::OuterStepsPassBase;
  void runOnOperation() override;

private:
  LogicalResult checkInput(ArrayRef<BucketOp> trained);
  void divide(MutableArrayRef<BucketOp> trained);
  void addStates(BucketOp bucket);
  void reduceWithinNodes();
  void scaleByNode();
  void makeUpdate(int64_t fragment, ArrayRef<BucketOp> buckets);
  void makeMicrobatch(func::FuncOp inner, int64_t fragment,
                      ArrayRef<BucketOp> buckets);
  void makeFunctions(int64_t fragment, ArrayRef<BucketOp> trained);
  void setFragment(func::FuncOp function, Role role, int64_t fragment);
  Value sumDifferences(OpBuilder &builder, BucketOp bucket);
  void update(OpBuilder &builder, BucketOp bucket, Value sum);

  OuterSpec spec;
  MeshOp mesh;
};
} // namespace

/// Returns the reason why the gradients of `bucket` cannot be reduced within
/// the node alone, or an empty string.
static std::string findObstacle(BucketOp bucket) {
  if (bucket.getSharding() != Sharding::node)
    return ("expected states that are sharded over the ranks of a node, as the "
            "strategies 'hsdp' and 'mics' have them, got sharding '" +
            stringifySharding(bucket.getSharding()) + "'")
        .str();
  if (bucket.getAccumulation() == Accumulation::node_host)
    return "expected gradient accumulators on the device, got accumulation "
           "'node_host'";
  if (bucket.getStates() == Arena::host)
    return "expected states on the device, got states 'host'";
  if (bucket.getStates() == Arena::file)
    return "expected states on the device, got states 'file'";
  if (bucket.getCollectives() == Collectives::flat)
    return "expected two-level collectives, got 'flat'";
  return "";
}

/// Returns the gather of a gradient that is reduced over all ranks at once and
/// accumulated by `sum`, or null.
static AllGatherOp findGather(AccumulateOp sum) {
  auto gather = sum.getValue().getDefiningOp<AllGatherOp>();
  if (!gather || !gather->hasOneUse())
    return {};
  auto reduce = gather.getInput().getDefiningOp<ReduceScatterOp>();
  bool isWhole = reduce && reduce->hasOneUse() && reduce.getAxes().size() == 2;
  return isWhole ? gather : AllGatherOp();
}

LogicalResult OuterStepsPass::checkInput(ArrayRef<BucketOp> trained) {
  ModuleOp module = getOperation();
  if (mesh.getNode() == 1)
    return module.emitError(
        "outer: expected several nodes, got 1: a node alone "
        "has none to synchronize with");
  if (StringRef obstacle = spec.findObstacle(getTarget(module));
      !obstacle.empty())
    return module.emitError("outer: ") << obstacle;
  for (auto buffer : module.getOps<BufferOp>())
    if (buffer.getMutableBuffer())
      return buffer.emitError("outer: expected no buffer that the step writes, "
                              "which would differ between nodes, got '")
             << buffer.getName() << "'";
  for (BucketOp bucket : trained)
    if (std::string obstacle = findObstacle(bucket); !obstacle.empty())
      return bucket.emitError("outer: ") << obstacle;
  for (auto function : module.getOps<func::FuncOp>())
    for (auto sum : function.getOps<AccumulateOp>())
      if (!findGather(sum))
        return sum.emitOpError(
            "outer: expected a gradient that is reduced over "
            "all ranks at once, as before --fcdp-two-level "
            "and --fcdp-accumulate");
  if (int64_t variants = countVariants(module);
      spec.outer.getOverlap() && variants > 1)
    return module.emitError("outer: expected a step of one shape, with which "
                            "'overlap=on' works, got ")
           << variants << " shapes";
  if (spec.outer.getFragments() > static_cast<int64_t>(trained.size()))
    return module.emitError("outer: expected at most as many fragments as "
                            "trained buckets, ")
           << trained.size() << ", got " << spec.outer.getFragments();
  return success();
}

/// Gives consecutive buckets to each fragment, so that each has at least one
/// and all have about as many elements.
void OuterStepsPass::divide(MutableArrayRef<BucketOp> trained) {
  int64_t fragments = spec.outer.getFragments(), total = 0, before = 0;
  for (BucketOp bucket : trained)
    total += static_cast<int64_t>(bucket.getElements());
  Builder builder(&getContext());
  int64_t fragment = 0;
  for (auto [index, bucket] : llvm::enumerate(trained)) {
    int64_t elements = bucket.getElements();
    auto left = static_cast<int64_t>(trained.size() - index);
    bool isFull = static_cast<double>(before) + elements / 2.0 >
                  static_cast<double>(total) / fragments * (fragment + 1);
    bool isLast = fragment + 1 == fragments;
    bool isNeeded = left < fragments - fragment;
    if (index > 0 && !isLast && (isFull || isNeeded))
      ++fragment;
    bucket.setOuterAttr(builder.getI64IntegerAttr(fragment));
    before += elements;
  }
}

void OuterStepsPass::addStates(BucketOp bucket) {
  // Within a node both modes are the same.
  if (bucket.getAccumulation() == Accumulation::node)
    bucket.setAccumulation(Accumulation::sharded);
  if (!spec.form.empty())
    setReductionForm(bucket, spec.form);
  SymbolTable table(getOperation());
  auto place = std::next(bucket->getIterator());
  for (StateRole role : spec.outer.getStates())
    table.insert(createState(bucket, role, getStateType(bucket, role, mesh)),
                 place);
}

/// Replaces reductions over all ranks, and the gathers of the parts that the
/// ranks of a node own, by reductions within the node.
void OuterStepsPass::reduceWithinNodes() {
  ArrayAttr local = oneAxis(&getContext(), Axis::local);
  for (auto function : getOperation().getOps<func::FuncOp>())
    for (auto sum : function.getOps<AccumulateOp>()) {
      AllGatherOp gather = findGather(sum);
      auto reduce = gather.getInput().getDefiningOp<ReduceScatterOp>();
      OpBuilder builder(reduce);
      sum.getValueMutable().assign(ReduceScatterOp::create(
          builder, reduce.getLoc(), gather.getResult().getType(),
          reduce.getInput(), reduce.getSourceAttr(), reduce.getMeshAttr(),
          local));
      gather.erase();
      reduce.erase();
    }
}

void OuterStepsPass::scaleByNode() {
  ModuleOp module = getOperation();
  llvm::APFloat scale(1.0 / static_cast<double>(countReducedRanks(module) *
                                                getMicroBatches(module)));
  module.walk([&](Operation *op) {
    if (hasOwnScale(op))
      return;
    if (auto update = dyn_cast<ShardUpdateOp>(op))
      update.setScale(scale);
    else if (auto clip = dyn_cast<ClipGradientsOp>(op))
      clip.setScale(scale);
  });
}

/// Returns the sum of the nodes' changes.
Value OuterStepsPass::sumDifferences(OpBuilder &builder, BucketOp bucket) {
  Location loc = bucket.getLoc();
  auto name = FlatSymbolRefAttr::get(bucket.getSymNameAttr());
  auto meshName = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
  ArrayAttr nodes = oneAxis(&getContext(), Axis::node);
  RankedTensorType slice =
      getStateType(bucket, StateRole::outer, mesh).clone(spec.type);
  auto nodeCount = static_cast<int64_t>(mesh.getNode());
  auto part =
      RankedTensorType::get({slice.getNumElements() / nodeCount}, spec.type);
  Value value =
      OuterDifferenceOp::create(builder, loc, slice, name, BufferAttr());
  value =
      ReduceScatterOp::create(builder, loc, part, value, name, meshName, nodes);
  return AllGatherOp::create(builder, loc, slice, value, name, meshName, nodes,
                             IntegerAttr());
}

void OuterStepsPass::update(OpBuilder &builder, BucketOp bucket, Value sum) {
  llvm::APFloat scale(1.0 / static_cast<double>(mesh.getNode()));
  OuterUpdateOp::create(builder, bucket.getLoc(), bucket.getSymName(), sum,
                        scale);
}

/// Names `function`, and moves it to the end of the module.
void OuterStepsPass::setFragment(func::FuncOp function, Role role,
                                 int64_t fragment) {
  setMember(function, {role, fragment}, spec.outer.getFragments());
  getOperation().push_back(function);
}

void OuterStepsPass::makeUpdate(int64_t fragment, ArrayRef<BucketOp> buckets) {
  auto function = func::FuncOp::create(
      getOperation().getLoc(), "", FunctionType::get(&getContext(), {}, {}));
  setFragment(function, Role::outer_update, fragment);
  OpBuilder builder = OpBuilder::atBlockBegin(function.addEntryBlock());
  // A bucket is updated when the reduction of the next one is in flight.
  BucketOp before;
  Value sum;
  for (BucketOp bucket : buckets) {
    Value next = sumDifferences(builder, bucket);
    if (before)
      update(builder, before, sum);
    before = bucket;
    sum = next;
  }
  update(builder, before, sum);
  func::ReturnOp::create(builder, function.getLoc());
}

/// Copies `inner`, the last micro-batch of a step, and adds the outer update.
/// The differences follow the first fetches, which run at the same time.
void OuterStepsPass::makeMicrobatch(func::FuncOp inner, int64_t fragment,
                                    ArrayRef<BucketOp> buckets) {
  func::FuncOp function = inner.clone();
  setFragment(function,
              getRole(inner) == Role::only_microbatch
                  ? Role::only_outer_microbatch
                  : Role::last_outer_microbatch,
              fragment);
  Block &block = function.front();
  OpBuilder begin(&*llvm::find_if_not(block, llvm::IsaPred<FetchOpInterface>));
  OpBuilder end(block.getTerminator());
  for (BucketOp bucket : buckets)
    update(end, bucket, sumDifferences(begin, bucket));
}

void OuterStepsPass::makeFunctions(int64_t fragment,
                                   ArrayRef<BucketOp> trained) {
  auto buckets = llvm::filter_to_vector(trained, [&](BucketOp bucket) {
    return static_cast<int64_t>(*bucket.getOuter()) == fragment;
  });
  if (!spec.outer.getOverlap())
    return makeUpdate(fragment, buckets);
  for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
    if (Role role = getRole(function); isLastOfStep(role) && !isOuter(role))
      makeMicrobatch(function, fragment, buckets);
}

void OuterStepsPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (outer.empty() || getOuter(module))
    return;
  llvm::Expected<OuterSpec> parsed = parseOuter(outer, &getContext());
  if (!parsed) {
    module.emitError("outer: ") << toString(parsed.takeError());
    return signalPassFailure();
  }
  spec = *parsed;
  mesh = getMesh(module);
  SmallVector<BucketOp> trained;
  for (auto bucket : module.getOps<BucketOp>())
    if (bucket.getTrainable())
      trained.push_back(bucket);
  if (failed(checkInput(trained)))
    return signalPassFailure();
  setOuter(module, spec.outer);
  reduceWithinNodes();
  scaleByNode();
  for (BucketOp bucket : trained)
    addStates(bucket);
  divide(trained);
  for (int64_t fragment = 0; fragment < spec.outer.getFragments(); ++fragment)
    makeFunctions(fragment, trained);
}
