// SPDX-License-Identifier: Apache-2.0

#include "Shard/LossRewrite.h"

#include "Retarget/CallBuilder.h"
#include "Shard/LossRows.h"
#include "dialects/Aten/ChunkedLoss.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

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

LossShape fcdp::getChunkedShape(const LossHead &head, const LossChunk &chunk) {
  return aten::getLossShape(
      typeOf(head.hidden), head.getVocabulary(), head.steps, chunk.rows,
      {!!head.gradHidden, !!head.gradWeight, !!head.gradBias}, chunk.block);
}

namespace {
/// The operands of fcdp.chunked_loss that depend on the form of the loss.
struct LossArguments {
  Value labels, gradient, sumGradient;
  int64_t reduction = 0;
};
} // namespace

/// Creates a call for these labels, one for each row of the product.
static CallOp createCall(const LossHead &head, const LossShape &shape,
                         const LossArguments &given) {
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
  auto typeOfResult = [](CallOp call) {
    return call ? call.getResult(0).getType() : Type();
  };
  Type element = head.logProbs.getElementType();
  auto one = RankedTensorType::get({}, element);
  auto byRow = RankedTensorType::get(shape.rows, element);
  add(given.reduction == 0 ? byRow : one);
  add(one);
  add(head.sums ? byRow : Type());
  for (CallOp call : {head.gradHidden, head.gradWeight, head.gradBias})
    add(typeOfResult(call));
  add(RankedTensorType::get({workspace},
                            builder.getIntegerType(8, /*isSigned=*/false)));
  CallBuilder call(builder, loss.getLoc(), aten::kChunkedLoss);
  call.tensor("hidden", head.hidden)
      .tensor("weight", head.weight)
      .tensor("bias", head.bias)
      .tensor("labels", given.labels)
      .tensor("gradient", given.gradient)
      .tensor("sum_gradient", given.sumGradient)
      .integer("rows", shape.chunk)
      .literal("steps", builder.getStringAttr(llvm::join(head.steps, " ")))
      .literal("factors", builder.getF64ArrayAttr(head.factors))
      .integer("reduction", given.reduction);
  if (head.isGathered())
    call.literal("ignore_index", builder.getUnitAttr());
  else
    call.integer("ignore_index", head.ignoreIndex);
  call.boolean("sums", !!head.sums)
      .literal("output_mask",
               builder.getBoolArrayAttr(
                   {shape.trainsHidden, shape.trainsWeight, shape.trainsBias}))
      .integer("workspace", workspace);
  if (shape.block != 0)
    call.integer("block", shape.block);
  return call.create(types, undefined);
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

static void replaceGradients(const LossHead &head, CallOp made) {
  // It computes gradients, so it is part of the backward pass.
  setRecompute(made, false);
  for (auto [from, which] :
       {std::pair(head.gradHidden, aten::LossReturn::GradHidden),
        std::pair(head.gradWeight, aten::LossReturn::GradWeight),
        std::pair(head.gradBias, aten::LossReturn::GradBias)})
    if (from)
      CallOp(from).getResult(0).replaceAllUsesWith(
          aten::getLossReturn(made, which));
}

/// Rewrites a loss that has one label for each row of the product.
static void rewriteWhole(LossHead &head, const LossShape &shape) {
  CallOp made = createCall(
      head, shape,
      {head.labels, head.gradient, head.sumGradient, head.reduction});
  replaceGradients(head, made);
  if (head.sums)
    head.sums.getResult(0).replaceAllUsesWith(
        aten::getLossReturn(made, aten::LossReturn::RowSums));
  for (auto [from, to] :
       llvm::zip_equal(head.loss.getResults(), made.getResults().take_front(2)))
    from.replaceAllUsesWith(to);
}

/// Returns the class -100 for each row that is ignored, and 0 for others.
static Value getRowClasses(const LossHead &head, OpBuilder &builder) {
  Location loc = CallOp(head.loss).getLoc();
  RankedTensorType type = typeOf(head.labels);
  Value isIgnored =
      CallBuilder(builder, loc, "aten.eq.Scalar")
          .tensor("self", head.labels)
          .integer("other", head.ignoreIndex)
          .create(RankedTensorType::get(type.getShape(), builder.getI1Type()))
          .getResult(0);
  return CallBuilder(builder, loc, "aten.mul.Tensor")
      .tensor("self", isIgnored)
      .integer("other", -100)
      .create(type)
      .getResult(0);
}

/// Reduces a column of log-probabilities, one of each row, as the whole does.
static CallOp reduceRows(const LossHead &head, OpBuilder &builder,
                         Value logProbs, Value classes, Type lossType) {
  return CallBuilder(builder, CallOp(head.loss).getLoc(),
                     "aten.nll_loss_forward.default")
      .tensor("self", logProbs)
      .tensor("target", classes)
      .literal("weight", builder.getUnitAttr())
      .integer("reduction", head.reduction)
      .integer("ignore_index", -100)
      .create({lossType,
               RankedTensorType::get({}, head.logProbs.getElementType())});
}

/// Returns the gradient of each row's loss.
static Value getRowGradient(const LossHead &head, LossRows &rows,
                            OpBuilder &builder, Value classes) {
  Location loc = CallOp(head.loss).getLoc();
  Value gradient = head.gradient;
  if (head.isGathered()) {
    gradient = rows.reshape(gradient, rows.getShape());
    return head.negatesPicked ? gradient : rows.negate(gradient);
  }
  if (head.reduction == 1) {
    SmallVector<int64_t> column = {rows.getShape()[0], 1};
    Value zeros = CallBuilder(builder, loc, "aten.new_zeros.default")
                      .tensor("self", gradient)
                      .integers("size", column)
                      .create(RankedTensorType::get(
                          column, head.logProbs.getElementType()))
                      .getResult(0);
    CallOp counted =
        reduceRows(head, builder, zeros, classes, gradient.getType());
    gradient = CallBuilder(builder, loc, "aten.div.Tensor")
                   .tensor("self", gradient)
                   .tensor("other", counted.getResult(1))
                   .create(gradient.getType())
                   .getResult(0);
  }
  return head.reduction == 0 ? gradient
                             : rows.expand(gradient, rows.getShape());
}

/// Rewrites a loss as one loss for each row of the product, which is reduced
/// afterwards. Rows that slices leave out have no gradient.
static void rewriteByRows(LossHead &head, const LossShape &shape) {
  CallOp loss = head.loss;
  OpBuilder builder(loss);
  LossRows rows(head, builder, loss.getLoc());
  const bool isGathered = head.isGathered();
  Value classes = isGathered ? Value() : getRowClasses(head, builder);
  LossArguments given;
  given.reduction = 0;
  given.labels = rows.toProduct(rows.reshape(head.labels, rows.getShape()),
                                isGathered ? 0 : head.ignoreIndex);
  if (head.gradient)
    given.gradient = rows.toProduct(
        getRowGradient(head, rows, builder, classes), /*fill=*/0);
  if (head.sumGradient) {
    Value gradient = rows.reshape(head.sumGradient, rows.getShape());
    given.sumGradient = rows.toProduct(
        head.negatesSums ? rows.negate(gradient) : gradient, /*fill=*/0);
  }
  CallOp made = createCall(head, shape, given);
  replaceGradients(head, made);
  if (head.sums) {
    Value sums =
        rows.toLoss(aten::getLossReturn(made, aten::LossReturn::RowSums));
    if (head.negatesSums)
      sums = rows.negate(sums);
    Value old = head.sums.getResult(0);
    old.replaceAllUsesWith(rows.reshape(sums, typeOf(old).getShape()));
  }
  Value losses = rows.toLoss(made.getResult(0));
  if (isGathered) {
    Value picked = head.negatesPicked ? losses : rows.negate(losses);
    Value old = loss.getResult(0);
    old.replaceAllUsesWith(rows.reshape(picked, typeOf(old).getShape()));
    return;
  }
  Value logProbs = rows.reshape(rows.negate(losses), {rows.getShape()[0], 1});
  CallOp reduced =
      reduceRows(head, builder, logProbs, classes, loss.getResult(0).getType());
  loss->replaceAllUsesWith(reduced);
}

/// Returns whether the loss has one label, and one sum, for each row of the
/// product in its order, as fcdp.chunked_loss has.
static bool isByProductRow(const LossHead &head) {
  auto isVector = [](Value value) {
    return !value || typeOf(value).getRank() == 1;
  };
  return !head.isGathered() && !head.isSliced() && !head.negatesSums &&
         isVector(head.sumGradient) &&
         isVector(head.sums ? CallOp(head.sums).getResult(0) : Value());
}

double fcdp::costOfChunks(const LossHead &head, const LossShape &shape,
                          const CostModel *model) {
  // A cost depends on types alone.
  CallOp call = createCall(
      head, shape,
      {head.labels, head.gradient, head.sumGradient, head.reduction});
  double cost = costOfRecomputing(call, model);
  call.erase();
  return cost;
}

void fcdp::rewriteLoss(LossHead &head, const LossChunk &chunk) {
  moveSeeds(head);
  LossShape shape = getChunkedShape(head, chunk);
  if (isByProductRow(head))
    rewriteWhole(head, shape);
  else
    rewriteByRows(head, shape);
  eraseCalls(head);
}
