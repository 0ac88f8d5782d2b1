// SPDX-License-Identifier: Apache-2.0
//
// Matches the forms of a loss: nll_loss, or a gather of log-probabilities, each
// with the sums of label smoothing.

#include "Shard/LossMatcher.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

static CallOp findSoftmax(Value value) {
  while (CallOp negation = getCall(value, "aten.neg.default"))
    value = negation.getOperand(0);
  return getCall(value, "aten._log_softmax.default");
}

bool fcdp::picksLabels(CallOp call) {
  return call.getCallee() == "aten.gather.default" &&
         findSoftmax(getOperand(call, "self"));
}

bool LossHead::isGathered() const {
  return loss && CallOp(loss).getCallee() == "aten.gather.default";
}

bool LossMatcher::matchForm() {
  if (!(head.isGathered() ? matchGather() : matchNll()) || !matchLogProbs())
    return false;
  for (Operation *user : logProbs.getUsers())
    if (auto call = dyn_cast<CallOp>(user);
        call && call.getCallee() == "aten.neg.default" && !negated)
      negated = take(call).getResult(0);
  return matchSums();
}

bool LossMatcher::matchNll() {
  CallOp loss = take(head.loss);
  if (!isNone(loss, "weight"))
    return fail("its classes have weights");
  auto reduction = dyn_cast_or_null<IntegerAttr>(loss.getArgument("reduction"));
  auto ignored =
      dyn_cast_or_null<IntegerAttr>(loss.getArgument("ignore_index"));
  head.labels = getOperand(loss, "target");
  logProbs = getOperand(loss, "self");
  if (!reduction || !ignored || !head.labels || !logProbs ||
      reduction.getInt() < 0 || reduction.getInt() > 2 ||
      loss.getNumResults() != 2)
    return fail("its arguments are not those of a cross entropy");
  head.reduction = reduction.getInt();
  head.ignoreIndex = ignored.getInt();
  if (typeOf(logProbs).getRank() != 2 || typeOf(head.labels).getRank() != 1)
    return fail("its log-softmax is not over the classes of a matrix");
  return true;
}

bool LossMatcher::matchGather() {
  CallOp loss = take(head.loss);
  head.labels = getOperand(loss, "index");
  logProbs = getOperand(loss, "self");
  if (CallOp negation = getCall(logProbs, "aten.neg.default")) {
    logProbs = negation.getOperand(0);
    head.negatesPicked = true;
  }
  RankedTensorType type = typeOf(loss.getResult(0));
  if (!head.labels || !isLastDim(loss, type.getRank()) || type.getRank() == 0 ||
      type.getShape().back() != 1 ||
      typeOf(logProbs).getShape().drop_back() != type.getShape().drop_back())
    return fail("its gather does not pick one class of each row");
  head.reduction = 0;
  return true;
}

/// Finds the sums of all classes of each row.
bool LossMatcher::matchSums() {
  for (Value of : {logProbs, negated}) {
    if (!of)
      continue;
    for (Operation *user : of.getUsers()) {
      auto call = dyn_cast<CallOp>(user);
      if (!call || call.getCallee() != "aten.sum.dim_IntList" || head.sums ||
          !isLastDimList(call, typeOf(of).getRank()))
        continue;
      auto type = dyn_cast_or_null<TypeAttr>(call.getArgument("dtype"));
      if (!isNone(call, "dtype") && (!type || type.getValue() != lossType))
        continue;
      head.sums = take(call);
      head.negatesSums = of == negated;
    }
  }
  return true;
}

/// Matches the gradient of log-probabilities: that of the form, to which that
/// of the sums may be added.
bool LossMatcher::matchFormGradient(Value gradient) {
  SmallVector<std::pair<Value, bool>> terms = {{gradient, false}};
  while (!terms.empty()) {
    auto [term, isNegated] = terms.pop_back_val();
    auto call = term.getDefiningOp<CallOp>();
    StringRef callee = call ? call.getCallee() : StringRef();
    if (!term.hasOneUse())
      return fail("the gradient of its log-probabilities has another user");
    if (callee == "aten.neg.default") {
      terms.push_back({take(call).getOperand(0), !isNegated});
    } else if (callee == "aten.add.Tensor" && call.getArgNames().size() == 2 &&
               call.getNumOperands() == 2) {
      take(call);
      for (Value operand : llvm::reverse(call.getOperands()))
        terms.push_back({operand, isNegated});
    } else if (callee == "aten.nll_loss_backward.default" && !isNegated &&
               !head.isGathered() && !head.gradient) {
      if (!matchNllGradient(call))
        return false;
    } else if (callee == "aten.scatter_add.default" && head.isGathered() &&
               isNegated == head.negatesPicked && !head.gradient) {
      if (!matchGatherGradient(call))
        return false;
    } else if (callee == "aten.expand.default" && head.sums &&
               isNegated == head.negatesSums && !head.sumGradient) {
      if (!matchSumGradient(call))
        return false;
    } else {
      return fail("another gradient is added to that of its log-probabilities");
    }
  }
  return head.gradient ||
         fail("its backward pass is not that of its loss alone");
}

bool LossMatcher::matchNllGradient(CallOp call) {
  take(call);
  if (getOperand(call, "self") != logProbs ||
      getOperand(call, "target") != head.labels ||
      !isInteger(call, "reduction", head.reduction) ||
      !isInteger(call, "ignore_index", head.ignoreIndex) ||
      !isNone(call, "weight") ||
      getOperand(call, "total_weight") != head.loss.getResult(1))
    return fail("its backward pass has other arguments than the loss");
  head.gradient = getOperand(call, "grad_output");
  return true;
}

/// Matches what a gather's gradient is: one number of each row, among zeros.
bool LossMatcher::matchGatherGradient(CallOp call) {
  take(call);
  CallOp zeros = getCall(getOperand(call, "self"), "aten.new_zeros.default");
  if (!zeros || !isLastDim(call, head.logProbs.getRank()) ||
      !isSame(getOperand(call, "index"), head.labels) ||
      typeOf(zeros.getResult(0)) != head.logProbs)
    return fail("its backward pass has other arguments than the loss");
  take(zeros);
  head.gradient = getOperand(call, "src");
  return true;
}

/// Matches a number of each row, which is expanded to all classes.
bool LossMatcher::matchSumGradient(CallOp call) {
  take(call);
  Value column = getOperand(call, "self");
  CallOp unsqueezed = getCall(column, "aten.unsqueeze.default");
  const int64_t rank = head.logProbs.getRank();
  if (unsqueezed && isLastDim(unsqueezed, rank) &&
      typeOf(unsqueezed.getOperand(0)).getRank() == rank - 1) {
    head.sumGradient = take(unsqueezed).getOperand(0);
    return true;
  }
  // Sums that keep the dimension of classes have such gradients.
  if (typeOf(column).getRank() != rank || typeOf(column).getShape().back() != 1)
    return fail("another gradient is added to that of its log-probabilities");
  head.sumGradient = column;
  return true;
}
