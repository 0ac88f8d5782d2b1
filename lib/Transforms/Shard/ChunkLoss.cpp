// SPDX-License-Identifier: Apache-2.0

#include "Options/ClusterOption.h"
#include "Recompute/RematDecision.h"
#include "Shard/LossHead.h"
#include "Shard/LossRewrite.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/StateRoles.h"
#include "fcdp/Planning/Loss/LossMemory.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/LossChunkSpec.h"
#include "fcdp/Transforms/Options/OptimizerSpec.h"
#include "fcdp/Transforms/Options/PrecisionSpec.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace fcdp {
#define GEN_PASS_DEF_CHUNKLOSSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

namespace {
class ChunkLossPass : public fcdp::impl::ChunkLossPassBase<ChunkLossPass> {
public:
  using ChunkLossPassBase::ChunkLossPassBase;
  ChunkLossPass(ChunkLossPassOptions options, std::optional<Cluster> described)
      : ChunkLossPassBase(std::move(options)), described(std::move(described)) {
  }
  void runOnOperation() override;

private:
  LogicalResult readBounds();
  LogicalResult readRemat();
  FailureOr<LossProblem> getProblem(const LossHead &head,
                                    const LossChunkSpec &spec) const;
  bool recomputes(func::FuncOp function) const;
  LogicalResult recompute(func::FuncOp function) const;
  LogicalResult measureRecomputed(LossProblem &problem,
                                  const LossHead &head) const;
  LogicalResult chunkLoss(CallOp loss, const LossChunkSpec &spec);

  std::optional<Cluster> described;
  std::optional<CostModel> model;
  std::optional<int64_t> budget;
  int64_t states = 0;
  RematSpec rematSpec;
  std::optional<RematDecision> rematDecision;
  /// Calls of losses that stay whole.
  llvm::DenseSet<Operation *> refused;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createChunkLossPass(ChunkLossPassOptions options,
                          std::optional<Cluster> described) {
  return std::make_unique<ChunkLossPass>(std::move(options),
                                         std::move(described));
}

/// Reports what became of a loss.
static void report(CallOp loss, const llvm::Twine &text, bool isChunked) {
  if (!loss.getContext()->getRemarkEngine())
    return;
  auto opts = remark::RemarkOpts::name("loss-chunk")
                  .category("fcdp-chunk-loss")
                  .function(loss->getParentOfType<func::FuncOp>().getSymName());
  if (isChunked)
    remark::passed(loss.getLoc(), opts) << text.str();
  else
    remark::missed(loss.getLoc(), opts) << text.str();
}

/// Returns the least bytes of parameters and of the states of their optimizer,
/// which are sharded over all ranks.
static int64_t measureStates(ModuleOp module, Attribute optimizer, Type master,
                             int64_t ranks) {
  int64_t bytes = 0;
  for (auto parameter : module.getOps<ParameterOp>()) {
    RankedTensorType type = parameter.getTensorType();
    bytes += byteSize(type);
    if (!parameter.getTrainable())
      continue;
    const int64_t each = elementBytes(master ? master : type.getElementType());
    if (master && master != type.getElementType())
      bytes += each * type.getNumElements();
    auto settings = cast<OptimizerAttrInterface>(optimizer);
    for (StateRole role : settings.getStates()) {
      const StateType of = getRecord(role).type;
      bytes += countStateElements(role, type, settings.getMaxSide()) *
               (of == StateType::u8    ? 1
                : of == StateType::f32 ? 4
                                       : each);
    }
  }
  return bytes / ranks;
}

/// Takes what the problems of all losses have in common from the options.
LogicalResult ChunkLossPass::readBounds() {
  ModuleOp module = getOperation();
  if (!cluster.empty() || described) {
    llvm::Expected<Cluster> given =
        getClusterOf(/*mesh=*/{}, described, cluster, profile);
    if (!given)
      return module.emitError("cluster: ") << toString(given.takeError());
    model.emplace(*given);
    budget = given->getDeviceCapacity().usable;
  }
  if (deviceMemory > 0)
    budget = deviceMemory;
  llvm::Expected<OptimizerSpec> optimizers =
      parseOptimizers(optimizer, &getContext());
  if (!optimizers)
    return module.emitError("optimizer: ") << toString(optimizers.takeError());
  llvm::Expected<Type> type = parseMaster(master, &getContext());
  if (!type)
    return module.emitError("master: ") << toString(type.takeError());
  states = measureStates(module, optimizers->first, *type,
                         std::max<int64_t>(nodes * ranksPerNode, 1));
  return success();
}

/// Reads the options of recomputation. `auto` may recompute all that `unit`
/// does.
LogicalResult ChunkLossPass::readRemat() {
  ModuleOp module = getOperation();
  llvm::Expected<RematSpec> spec = parseRemat(remat);
  if (!spec)
    return module.emitError("remat: ") << toString(spec.takeError());
  rematSpec = *spec;
  rematDecision.reset();
  if (rematSpec.mode == RematSpec::Mode::None)
    return success();
  FailureOr<SmallVector<func::FuncOp>> steps = requireSteps(module);
  if (failed(steps))
    return failure();
  FailureOr<RematDecision> decision =
      RematDecision::create(steps->front(), optimizer, group, reduceType);
  if (failed(decision))
    return failure();
  rematDecision = std::move(*decision);
  return success();
}

/// Returns whether the backward pass will recompute values.
bool ChunkLossPass::recomputes(func::FuncOp function) const {
  if (function == findEvaluation(function->getParentOfType<ModuleOp>()))
    return false;
  return rematDecision || !findCheckpointed(function).empty() ||
         llvm::any_of(function.getOps<CallOp>(), [](CallOp call) {
           return getRecompute(call).value_or(false);
         });
}

/// Recomputes values as later passes will.
LogicalResult ChunkLossPass::recompute(func::FuncOp function) const {
  chooseCheckpointed(function);
  if (rematDecision) {
    llvm::Expected<Rematerialization> decided =
        rematDecision->decide(function, rematSpec, model ? &*model : nullptr);
    if (!decided)
      return function.emitError() << toString(decided.takeError());
    for (CallOp call : decided->calls)
      setRecompute(call, true);
  }
  return recomputeChosen(function);
}

/// Measures peaks in copies of the function in which values are recomputed,
/// with the whole loss and with one in chunks.
LogicalResult ChunkLossPass::measureRecomputed(LossProblem &problem,
                                               const LossHead &head) const {
  auto function = head.place->getParentOfType<func::FuncOp>();
  Operation *anchor =
      head.loss ? CallOp(head.loss) : head.teacher->logProbs.getDefiningOp();
  auto index = std::distance(function.front().begin(), Block::iterator(anchor));
  OpBuilder builder(function);
  auto copy = [&](StringRef name) {
    auto made = cast<func::FuncOp>(builder.clone(*function));
    made.setSymName((function.getSymName() + name).str());
    return made;
  };
  func::FuncOp whole = copy(".whole_loss"), chunked = copy(".chunked_loss");
  auto erase = llvm::scope_exit([&] {
    whole.erase();
    chunked.erase();
  });
  LossHead copied;
  auto loss = cast<CallOp>(*std::next(chunked.front().begin(), index));
  if (std::string reason = matchLossHead(loss, copied); !reason.empty())
    return head.place->emitError("loss-chunk: expected the same loss in a copy "
                                 "of the step, got: ")
           << reason;
  LossChunk chunk = {std::min<int64_t>(kLossRowMultiple, head.getRows()), 0};
  CallOp made = rewriteLoss(copied, chunk);
  if (failed(recompute(whole)) || failed(recompute(chunked)))
    return failure();
  measureRecomputedPeaks(problem, whole, made,
                         LossWorkspace(getChunkedShape(head, chunk)).bytes);
  return success();
}

FailureOr<LossProblem>
ChunkLossPass::getProblem(const LossHead &head,
                          const LossChunkSpec &spec) const {
  const CostModel *costs = model ? &*model : nullptr;
  LossProblem problem;
  problem.shape = getChunkedShape(head, {spec.rows, 0});
  problem.rows = spec.mode == LossChunkSpec::Mode::Auto
                     ? LossProblem::Rows::Auto
                     : LossProblem::Rows::Given;
  problem.head = static_cast<LossProblem::Head>(spec.head);
  problem.budget = budget;
  // The loss has its projection's weight gathered.
  problem.states = states + byteSize(typeOf(head.weight));
  if (head.teacher && head.teacher->weight)
    problem.states += byteSize(typeOf(head.teacher->weight));
  int64_t results = 0;
  for (CallOp call : {head.gradHidden, head.gradWeight, head.gradBias})
    if (call)
      results += byteSize(typeOf(call.getResult(0)));
  auto function = head.place->getParentOfType<func::FuncOp>();
  if (!recomputes(function))
    measureLossPeaks(problem, function, head.calls.getArrayRef(), head.place,
                     results);
  else if (failed(measureRecomputed(problem, head)))
    return failure();
  for (Operation *op : head.calls)
    problem.wholeCost += costOfRecomputing(cast<CallOp>(op), costs);
  return problem;
}

static std::string describe(const LossHead &head, bool isByBlocks,
                            const LossSolution &solution) {
  const LossChunk &chunk = solution.chunk;
  std::string text = llvm::formatv(
      "logits of {0} x {1} in {2} chunks of {3} rows need {4}", head.getRows(),
      head.getVocabulary(), llvm::divideCeil(head.getRows(), chunk.rows),
      chunk.rows,
      formatBytes(LossWorkspace(getChunkedShape(head, chunk)).bytes));
  if (chunk.block != 0)
    text += llvm::formatv(", and the gradient of their weight is computed in "
                          "{0} blocks of {1} classes",
                          llvm::divideCeil(head.getVocabulary(), chunk.block),
                          chunk.block);
  else if (isByBlocks && head.gradWeight && head.teacher)
    text += ", and the gradient of their weight stays a sum: there are no "
            "blocks with a teacher";
  else if (isByBlocks && head.gradWeight)
    text += ", and the gradient of their weight stays a sum: blocks are for "
            "log-probabilities in f32 of a model in bf16 or f16, and need "
            "longer chunks";
  return solution.reason.empty() ? text : text + ": " + solution.reason;
}

LogicalResult ChunkLossPass::chunkLoss(CallOp loss, const LossChunkSpec &spec) {
  LossHead head;
  auto stayWhole = [&](const std::string &reason) {
    report(loss, "loss-chunk: the loss stays whole: " + reason, false);
    return success();
  };
  if (std::string reason = matchLossHead(loss, head); !reason.empty()) {
    refused.insert(head.calls.begin(), head.calls.end());
    return stayWhole(reason);
  }
  FailureOr<LossProblem> found = getProblem(head, spec);
  if (failed(found))
    return failure();
  LossProblem problem = *found;
  auto getCost = [&](const LossShape &shape) {
    return costOfChunks(head, shape, model ? &*model : nullptr);
  };
  problem.getCost = getCost;
  if (llvm::Error error = problem.check())
    return loss.emitError("loss-chunk: ") << toString(std::move(error));
  LossSolution solution = planLoss(problem);
  if (llvm::Error error = solution.verify(problem))
    return loss.emitError("loss-chunk: ") << toString(std::move(error));
  if (solution.chunk.rows == 0) {
    refused.insert(head.calls.begin(), head.calls.end());
    return stayWhole(solution.reason);
  }
  report(loss,
         "loss-chunk: " +
             describe(head, spec.head == LossChunkSpec::Head::Blocks, solution),
         true);
  rewriteLoss(head, solution.chunk);
  return success();
}

void ChunkLossPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requireSteps(module)))
    return signalPassFailure();
  llvm::Expected<LossChunkSpec> spec = parseLossChunk(lossChunk);
  if (!spec) {
    module.emitError("loss-chunk: ") << toString(spec.takeError());
    return signalPassFailure();
  }
  if (spec->mode == LossChunkSpec::Mode::Off || getLossChunk(module))
    return;
  refused.clear();
  if (failed(readBounds()) || failed(readRemat()))
    return signalPassFailure();
  // All functions of an imported module compute the model's loss.
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    SmallVector<CallOp> losses;
    for (auto call : function.getOps<CallOp>())
      if (call.getCallee() == "aten.nll_loss_forward.default" ||
          picksLabels(call))
        losses.push_back(call);
      else if (call.getCallee() == "aten.nll_loss2d_forward.default")
        report(call,
               "loss-chunk: the loss stays whole: its classes are not the "
               "last dimension (nll_loss2d)",
               false);
    for (CallOp loss : losses)
      if (failed(chunkLoss(loss, *spec)))
        return signalPassFailure();
    // A cross entropy that has a teacher has taken its log-softmax.
    SmallVector<CallOp> compared =
        llvm::filter_to_vector(function.getOps<CallOp>(), [&](CallOp call) {
          return comparesLogits(call) && !refused.contains(call);
        });
    for (CallOp softmax : compared)
      if (failed(chunkLoss(softmax, *spec)))
        return signalPassFailure();
  }
  setLossChunk(module, lossChunk);
}
