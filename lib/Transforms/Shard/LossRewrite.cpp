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
/// replaces the ones with which the backward pass begins. Operations that
/// depend on the loss move after it.
static void moveOperations(LossHead &head) {
  Operation *last = head.place;
  for (Operation *op : head.dependants) {
    op->moveAfter(last);
    last = op;
  }
  for (Operation *op : head.seeds) {
    op->moveBefore(head.place);
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
    SmallVector<Value *> gradients = {&head.gradient, &head.sumGradient};
    if (head.teacher)
      gradients.push_back(&head.teacher->gradient);
    for (Value *gradient : gradients)
      if (*gradient == call.getResult(0))
        *gradient = ones;
    call.getResult(0).replaceAllUsesWith(ones);
    call.erase();
  }
}

static LossShape::Teacher getTeacherShape(const LossHead &head) {
  LossShape::Teacher shape;
  if (!head.teacher)
    return shape;
  const LossTeacher &teacher = *head.teacher;
  auto has = [](ArrayRef<StringRef> steps, StringRef step) {
    return llvm::is_contained(steps, step);
  };
  ArrayRef<StringRef> steps = teacher.student.steps,
                      common = steps.take_front(teacher.common),
                      own = steps.drop_front(teacher.common);
  RankedTensorType hidden = typeOf(teacher.hidden);
  shape.exists = true;
  shape.hasLabels = !!head.loss;
  shape.hidden = teacher.weight ? hidden.getDimSize(1) : 0;
  shape.modelBytes = hidden.getElementTypeBitWidth() / 8;
  shape.isCast = has(teacher.logits.steps, "cast");
  shape.hasTanh = has(teacher.logits.steps, "tanh");
  shape.isCommonCast = has(common, "cast");
  shape.isStudentCast = has(own, "cast");
  shape.hasStudentTanh = has(own, "tanh");
  shape.skipsInfinite = !!teacher.isInfinite;
  return shape;
}

LossShape fcdp::getChunkedShape(const LossHead &head, const LossChunk &chunk) {
  return aten::getLossShape(
      typeOf(head.hidden), head.getVocabulary(), head.logits.steps, chunk.rows,
      {!!head.gradHidden, !!head.gradWeight, !!head.gradBias}, chunk.block,
      getTeacherShape(head));
}

namespace {
/// The operands of fcdp.chunked_loss that depend on the form of the loss.
struct LossArguments {
  Value labels, gradient, sumGradient;
  int64_t reduction = 0;
  /// The teacher's logits or hidden states, and the gradient of the student's
  /// log-probabilities beside its probabilities.
  Value teacher = {}, teacherGradient = {};
};
} // namespace

/// Adds the literals that only a loss with a teacher has.
static void addTeacher(CallBuilder &call, const LossTeacher &teacher,
                       OpBuilder &builder) {
  ArrayRef<StringRef> steps = teacher.student.steps;
  auto scales = [](StringRef step) { return step == "div" || step == "mul"; };
  const size_t factors =
      llvm::count_if(steps.take_front(teacher.common), scales);
  auto join = [&](ArrayRef<StringRef> words) {
    return builder.getStringAttr(llvm::join(words, " "));
  };
  call.integer("common", teacher.common)
      .literal("student_steps", join(steps.drop_front(teacher.common)))
      .literal("student_factors",
               builder.getF64ArrayAttr(
                   ArrayRef(teacher.student.factors).drop_front(factors)))
      .literal("teacher_steps", join(teacher.logits.steps))
      .literal("teacher_factors",
               builder.getF64ArrayAttr(teacher.logits.factors))
      .literal("terms", builder.getStringAttr(teacher.terms))
      .boolean("skip_infinite", !!teacher.isInfinite)
      .boolean("by_row", teacher.isByRow);
}

/// Creates a call for these labels, one for each row of the product.
static CallOp createCall(const LossHead &head, const LossShape &shape,
                         const LossArguments &given) {
  OpBuilder builder(head.place);
  const LossTeacher *teacher = head.teacher ? &*head.teacher : nullptr;
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
  add(!head.loss ? Type() : given.reduction == 0 ? byRow : one);
  add(head.loss ? one : Type());
  add(head.sums ? byRow : Type());
  for (CallOp call : {head.gradHidden, head.gradWeight, head.gradBias})
    add(typeOfResult(call));
  add(RankedTensorType::get({workspace},
                            builder.getIntegerType(8, /*isSigned=*/false)));
  if (teacher) {
    Type ofStudent = teacher->getType().getElementType();
    add(teacher->isByRow ? RankedTensorType::get(shape.rows, ofStudent)
                         : RankedTensorType::get({}, ofStudent));
  }
  CallBuilder call(builder, head.place->getLoc(),
                   teacher ? aten::kChunkedDistillation : aten::kChunkedLoss);
  call.tensor("hidden", head.hidden)
      .tensor("weight", head.weight)
      .tensor("bias", head.bias)
      .tensor("labels", given.labels)
      .tensor("gradient", given.gradient)
      .tensor("sum_gradient", given.sumGradient);
  if (teacher)
    call.tensor("teacher", given.teacher)
        .tensor("teacher_weight", teacher->weight)
        .tensor("teacher_bias", teacher->bias)
        .tensor("teacher_gradient", given.teacherGradient);
  call.integer("rows", shape.chunk)
      .literal("steps",
               builder.getStringAttr(llvm::join(head.logits.steps, " ")))
      .literal("factors", builder.getF64ArrayAttr(head.logits.factors))
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
  if (teacher)
    addTeacher(call, *teacher, builder);
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
  for (Value weight :
       {head.weight, head.teacher ? head.teacher->weight : Value()})
    if (weight)
      llvm::append_range(views, weight.getUsers());
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

/// Computes the operands of a loss with a teacher.
static void addTeacherArguments(const LossHead &head, LossArguments &given) {
  if (!head.teacher)
    return;
  const LossTeacher &teacher = *head.teacher;
  OpBuilder builder(head.place);
  LossRows rows(head, builder, head.place->getLoc());
  given.teacher = teacher.hidden;
  // Given logits have the rows of the product. An operator may leave gaps.
  if (!teacher.weight) {
    SmallVector<int64_t> shape = {head.getRows(), head.getVocabulary()};
    given.teacher = teacher.hidden.getDefiningOp<CallOp>()
                        ? rows.reshape(teacher.hidden, shape)
                        : rows.view(teacher.hidden, shape);
  }
  Value gradient = teacher.gradient;
  if (!gradient)
    return;
  if (teacher.isMean)
    gradient = CallBuilder(builder, head.place->getLoc(), "aten.div.Scalar")
                   .tensor("self", gradient)
                   .integer("other", teacher.getType().getNumElements())
                   .create(gradient.getType())
                   .getResult(0);
  if (teacher.isByRow)
    gradient = rows.reshape(gradient, head.getRows());
  given.teacherGradient =
      teacher.negatesGradient ? rows.negate(gradient) : gradient;
}

/// Replaces the sum of a teacher's terms.
static void replaceDivergence(const LossHead &head, CallOp made) {
  if (!head.teacher)
    return;
  const LossTeacher &teacher = *head.teacher;
  OpBuilder builder(head.place);
  Value sum = aten::getLossReturn(made, aten::LossReturn::Divergence),
        old = CallOp(teacher.sum).getResult(0);
  if (teacher.isMean)
    sum = CallBuilder(builder, head.place->getLoc(), "aten.div.Scalar")
              .tensor("self", sum)
              .integer("other", teacher.getType().getNumElements())
              .create(sum.getType())
              .getResult(0);
  if (teacher.isByRow)
    sum = LossRows(head, builder, head.place->getLoc())
              .view(sum, typeOf(old).getShape());
  old.replaceAllUsesWith(sum);
}

/// Rewrites a loss that has one label for each row of the product.
static CallOp rewriteWhole(LossHead &head, const LossShape &shape) {
  LossArguments given = {head.labels, head.gradient, head.sumGradient,
                         head.reduction};
  addTeacherArguments(head, given);
  CallOp made = createCall(head, shape, given);
  replaceGradients(head, made);
  replaceDivergence(head, made);
  if (!head.loss)
    return made;
  if (head.sums)
    head.sums.getResult(0).replaceAllUsesWith(
        aten::getLossReturn(made, aten::LossReturn::RowSums));
  for (auto [from, to] :
       llvm::zip_equal(head.loss.getResults(), made.getResults().take_front(2)))
    from.replaceAllUsesWith(to);
  return made;
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
static CallOp rewriteByRows(LossHead &head, const LossShape &shape) {
  CallOp loss = head.loss;
  OpBuilder builder(head.place);
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
  addTeacherArguments(head, given);
  CallOp made = createCall(head, shape, given);
  replaceGradients(head, made);
  replaceDivergence(head, made);
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
    return made;
  }
  Value logProbs = rows.reshape(rows.negate(losses), {rows.getShape()[0], 1});
  CallOp reduced =
      reduceRows(head, builder, logProbs, classes, loss.getResult(0).getType());
  loss->replaceAllUsesWith(reduced);
  return made;
}

/// Returns whether the loss has one label, and one sum, for each row of the
/// product in its order, as fcdp.chunked_loss has.
static bool isByProductRow(const LossHead &head) {
  auto isVector = [](Value value) {
    return !value || typeOf(value).getRank() == 1;
  };
  return !head.isGathered() && !head.logits.isSliced() && !head.negatesSums &&
         isVector(head.sumGradient) &&
         isVector(head.sums ? CallOp(head.sums).getResult(0) : Value());
}

double fcdp::costOfChunks(const LossHead &head, const LossShape &shape,
                          const CostModel *model) {
  // A cost depends on types alone.
  LossArguments given = {head.labels, head.gradient, head.sumGradient,
                         head.reduction};
  if (head.teacher)
    given.teacher = head.teacher->hidden;
  CallOp call = createCall(head, shape, given);
  double cost = costOfRecomputing(call, model);
  call.erase();
  return cost;
}

CallOp fcdp::rewriteLoss(LossHead &head, const LossChunk &chunk) {
  moveOperations(head);
  LossShape shape = getChunkedShape(head, chunk);
  CallOp made = isByProductRow(head) ? rewriteWhole(head, shape)
                                     : rewriteByRows(head, shape);
  eraseCalls(head);
  return made;
}
