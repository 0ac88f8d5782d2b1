// SPDX-License-Identifier: Apache-2.0

#include "Retarget/CallBuilder.h"
#include "Shard/LossHead.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Aten/ChunkedLoss.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/LossChunkSpec.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

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
  void runOnOperation() override;
};
} // namespace

/// Moves the operations that compute the gradients of the loss before it, and
/// replaces the ones with which the backward pass begins.
static void moveSeeds(LossHead &head) {
  for (Operation *op : head.seeds) {
    op->moveBefore(head.loss);
    auto call = dyn_cast<CallOp>(op);
    if (!call || call.getCallee() != "aten.ones_like.default")
      continue;
    auto type = cast<RankedTensorType>(call.getResult(0).getType());
    OpBuilder builder(call);
    Value ones = CallBuilder(builder, call.getLoc(), "aten.new_ones.default")
                     .tensor("self", head.hidden)
                     .integers("size", type.getShape())
                     .literal("dtype", TypeAttr::get(type.getElementType()))
                     .create(type)
                     .getResult(0);
    for (Value *gradient : {&head.gradient, &head.sumGradient})
      if (*gradient == call.getResult(0))
        *gradient = ones;
    call.getResult(0).replaceAllUsesWith(ones);
    call.erase();
  }
}

static LossShape getShape(const LossHead &head, int64_t rows) {
  auto hidden = cast<RankedTensorType>(head.hidden.getType());
  LossShape shape;
  shape.rows = head.getRows();
  shape.chunk = rows;
  shape.hidden = hidden.getDimSize(1);
  shape.vocabulary = head.getVocabulary();
  shape.modelBytes = hidden.getElementType().getIntOrFloatBitWidth() / 8;
  shape.isCast = llvm::is_contained(head.steps, "cast");
  shape.hasTanh = llvm::is_contained(head.steps, "tanh");
  shape.lossBytes = shape.isCast ? 4 : shape.modelBytes;
  shape.trainsWeight = !!head.gradWeight;
  shape.trainsBias = !!head.gradBias;
  shape.hasGradient = head.gradHidden || head.gradWeight || head.gradBias;
  return shape;
}

/// Creates the call, and returns it.
static CallOp createCall(const LossHead &head, const LossShape &shape) {
  CallOp loss = head.loss;
  OpBuilder builder(loss);
  const int64_t workspace = LossWorkspace(shape).bytes;
  SmallVector<Type> types;
  SmallVector<int64_t> undefined;
  auto add = [&](Type type) {
    if (type)
      types.push_back(type);
    else
      undefined.push_back(types.size() + undefined.size());
  };
  auto typeOf = [](CallOp call) {
    return call ? call.getResult(0).getType() : Type();
  };
  add(loss.getResult(0).getType());
  add(loss.getResult(1).getType());
  for (CallOp call :
       {head.sums, head.gradHidden, head.gradWeight, head.gradBias})
    add(typeOf(call));
  add(RankedTensorType::get({workspace},
                            builder.getIntegerType(8, /*isSigned=*/false)));
  return CallBuilder(builder, loss.getLoc(), aten::kChunkedLoss)
      .tensor("hidden", head.hidden)
      .tensor("weight", head.weight)
      .tensor("bias", head.bias)
      .tensor("labels", head.labels)
      .tensor("gradient", head.gradient)
      .tensor("sum_gradient", head.sumGradient)
      .integer("rows", shape.chunk)
      .literal("steps", builder.getStringAttr(llvm::join(head.steps, " ")))
      .literal("factors", builder.getF64ArrayAttr(head.factors))
      .integer("reduction", head.reduction)
      .integer("ignore_index", head.ignoreIndex)
      .boolean("sums", !!head.sums)
      .literal("output_mask",
               builder.getBoolArrayAttr(
                   {!!head.gradHidden, shape.trainsWeight, shape.trainsBias}))
      .integer("workspace", workspace)
      .create(types, undefined);
}

/// Erases the calls that the chunked loss replaces, and views of the weight
/// that nothing reads any more.
static void eraseCalls(LossHead &head) {
  SmallVector<Operation *> calls(head.calls.begin(), head.calls.end());
  llvm::sort(calls, [](Operation *one, Operation *other) {
    return other->isBeforeInBlock(one);
  });
  SmallVector<Operation *> views;
  for (Operation *user : head.weight.getUsers())
    views.push_back(user);
  for (Operation *op : calls)
    op->erase();
  for (size_t i = 0; i < views.size(); ++i)
    if (auto view = dyn_cast<CallOp>(views[i]);
        view && view.getCallee() == "aten.t.default")
      llvm::append_range(views, view->getUsers());
  for (Operation *view : llvm::reverse(views))
    if (auto call = dyn_cast<CallOp>(view);
        call && call.getCallee() == "aten.t.default" && call.use_empty())
      call.erase();
}

static void rewrite(LossHead &head, int64_t rows) {
  moveSeeds(head);
  LossShape shape = getShape(head, rows);
  CallOp made = createCall(head, shape);
  // It computes gradients, so it is part of the backward pass.
  setRecompute(made, false);
  for (auto [from, which] :
       {std::pair(head.sums, aten::LossReturn::RowSums),
        std::pair(head.gradHidden, aten::LossReturn::GradHidden),
        std::pair(head.gradWeight, aten::LossReturn::GradWeight),
        std::pair(head.gradBias, aten::LossReturn::GradBias)})
    if (from)
      from.getResult(0).replaceAllUsesWith(aten::getLossReturn(made, which));
  head.loss.getResult(0).replaceAllUsesWith(made.getResult(0));
  head.loss.getResult(1).replaceAllUsesWith(made.getResult(1));
  eraseCalls(head);
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

static void chunkLoss(CallOp loss, const LossChunkSpec &spec) {
  LossHead head;
  if (std::string reason = matchLossHead(loss, head); !reason.empty())
    return report(loss, "loss-chunk: the loss stays whole: " + reason, false);
  auto type = cast<RankedTensorType>(
      loss.getOperand(0).getType()); // its log-probabilities
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  int64_t rows = spec.getRows(head.getRows(), head.getVocabulary(), bytes);
  std::string logits = llvm::formatv("logits of {0} x {1}", head.getRows(),
                                     head.getVocabulary());
  if (rows == 0)
    return report(loss,
                  "loss-chunk: the loss stays whole: its " + logits +
                      " have no more than 256 MiB",
                  false);
  report(loss,
         llvm::formatv("loss-chunk: {0} in {1} chunks of {2} rows need {3}",
                       logits, llvm::divideCeil(head.getRows(), rows), rows,
                       formatBytes(LossWorkspace(getShape(head, rows)).bytes))
             .str(),
         true);
  rewrite(head, rows);
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
  // All functions of an imported module compute the model's loss.
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<CallOp> losses;
    for (auto call : function.getOps<CallOp>())
      if (call.getCallee() == "aten.nll_loss_forward.default")
        losses.push_back(call);
      else if (call.getCallee() == "aten.nll_loss2d_forward.default")
        report(call,
               "loss-chunk: the loss stays whole: its classes are not the "
               "last dimension (nll_loss2d)",
               false);
    for (CallOp loss : losses)
      chunkLoss(loss, *spec);
  }
  setLossChunk(module, lossChunk);
}
