// SPDX-License-Identifier: Apache-2.0
//
// Matches the backward pass from the gradient of log-probabilities on.

#include "Shard/LossMatcher.h"

#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

/// Returns the log-softmax's backward pass for this result.
static CallOp findSoftmaxBackward(Value logProbs) {
  SmallVector<Value> reached = {logProbs};
  while (!reached.empty())
    for (Operation *user : reached.pop_back_val().getUsers()) {
      auto call = dyn_cast<CallOp>(user);
      if (!call)
        continue;
      if (call.getCallee() == "aten._log_softmax_backward_data.default" &&
          skipReshapes(getOperand(call, "output")) == logProbs)
        return call;
      if (isReshape(call))
        reached.push_back(call.getResult(0));
    }
  return {};
}

bool LossMatcher::matchBackward() {
  const bool hasLabels = !!head.loss;
  CallOp ofLabels = hasLabels ? findSoftmaxBackward(logProbs) : CallOp(),
         ofTeacher = head.teacher ? findSoftmaxBackward(head.teacher->logProbs)
                                  : CallOp();
  if (hasLabels && !ofLabels)
    for (Operation *user : logProbs.getUsers())
      if (auto call = dyn_cast<CallOp>(user);
          call && call.getCallee() == "aten.nll_loss_backward.default")
        return fail("its backward pass is not that of a log-softmax");
  if (!ofLabels && !ofTeacher)
    return true; // nothing is trained
  if ((hasLabels && !ofLabels) || (head.teacher && !ofTeacher))
    return fail("it has no gradient of its labels, or none of its teacher");
  auto takeBackward = [&](CallOp backward, Value of) {
    if (typeOf(backward.getResult(0)).getElementType() !=
        typeOf(of).getElementType())
      return fail("its backward pass is not that of a log-softmax");
    take(backward);
    return true;
  };
  if (ofLabels && !(takeBackward(ofLabels, logProbs) &&
                    matchFormGradient(getOperand(ofLabels, "grad_output"))))
    return false;
  if (ofTeacher &&
      !(takeBackward(ofTeacher, head.teacher->logProbs) &&
        matchTeacherGradient(getOperand(ofTeacher, "grad_output"))))
    return false;
  if (ofLabels && ofTeacher)
    return matchBothBackward(ofLabels, ofTeacher);
  Rest rest(head.logits);
  return matchLogitGradient((ofLabels ? ofLabels : ofTeacher).getResult(0),
                            rest);
}

/// Matches the gradients of labels and teacher up to their sum, and from there
/// on.
bool LossMatcher::matchBothBackward(CallOp ofLabels, CallOp ofTeacher) {
  Rest rest(head.logits), ofStudent(head.teacher->student);
  Value one = reverseSteps(ofLabels.getResult(0), rest),
        other = reverseSteps(ofTeacher.getResult(0), ofStudent);
  auto sum = one.hasOneUse() ? dyn_cast<CallOp>(*one.user_begin()) : CallOp();
  if (!sum || !other.hasOneUse() || *other.user_begin() != sum ||
      sum.getCallee() != "aten.add.Tensor" || sum.getArgNames().size() != 2 ||
      rest.steps.size() != head.teacher->common ||
      ofStudent.steps.size() != head.teacher->common || !rest.slices.empty() ||
      one.getType() != other.getType() ||
      sum.getResult(0).getType() != one.getType())
    return fail("the gradients of its labels and of its teacher are not added "
                "where their logits part");
  return matchLogitGradient(take(sum).getResult(0), rest);
}

LossMatcher::Rest::Rest(const LogitChain &chain)
    : steps(chain.steps), factors(chain.factors), tanh(chain.tanh) {
  for (CallOp call : chain.shapes)
    if (call.getCallee() == "aten.slice.Tensor" && !isReshape(call))
      slices.push_back(call);
}

/// Goes from a gradient through the steps and slices that it reverses.
Value LossMatcher::reverseSteps(Value gradient, Rest &rest) {
  auto &[steps, factors, slices, tanh] = rest;
  while (gradient.hasOneUse()) {
    auto call = dyn_cast<CallOp>(*gradient.user_begin());
    if (!call || call.getNumOperands() == 0 || call.getOperand(0) != gradient)
      break;
    StringRef step = steps.empty() ? StringRef() : steps.back();
    if (isReshape(call)) {
      take(call);
    } else if (!step.empty() && getScaling(call) == step &&
               getFactor(call) == factors.back()) {
      take(call);
      steps.pop_back();
      factors.pop_back();
    } else if (step == "cast" && isCastTo(call, modelType)) {
      take(call);
      steps.pop_back();
    } else if (step == "tanh" &&
               call.getCallee() == "aten.tanh_backward.default" &&
               getOperand(call, "grad_output") == gradient &&
               skipReshapes(getOperand(call, "output")) == tanh) {
      take(call);
      steps.pop_back();
    } else if (call.getCallee() == "aten.slice_backward.default" &&
               !slices.empty()) {
      RankedTensorType from = typeOf(slices.back().getOperand(0));
      if (typeOf(call.getResult(0)).getShape() != from.getShape() ||
          !(readSlice(call, from) == readSlice(slices.back(), from)))
        break;
      take(call);
      slices.pop_back();
    } else {
      break;
    }
    gradient = call.getResult(0);
  }
  return gradient;
}

/// Goes from the log-softmax's gradient to that of the product's result,
/// through steps and slices in reverse.
bool LossMatcher::matchLogitGradient(Value gradient, Rest &rest) {
  gradient = reverseSteps(gradient, rest);
  if (!rest.steps.empty() || !rest.slices.empty())
    return fail("its backward pass is not that of its logits");
  return matchProducts(gradient);
}

bool LossMatcher::matchProducts(Value gradient) {
  auto takeOnce = [&](CallOp &slot, CallOp call) {
    bool isFirst = !slot;
    if (isFirst)
      slot = take(call);
    return isFirst;
  };
  for (Operation *user : gradient.getUsers()) {
    auto call = dyn_cast<CallOp>(user);
    StringRef callee = call ? call.getCallee() : StringRef();
    bool isKnown = false;
    if (callee == "aten.mm.default" && getOperand(call, "self") == gradient) {
      Value matrix = getOperand(call, "mat2");
      Value once = findTransposed(matrix);
      // An even number of transpositions leaves the matrix.
      while (CallOp view = getCall(matrix, "aten.t.default"))
        matrix = view.getOperand(0);
      isKnown =
          !once && matrix == head.weight && takeOnce(head.gradHidden, call);
    } else if (callee == "aten.t.default" && call.getResult(0).hasOneUse()) {
      auto product = dyn_cast<CallOp>(*call.getResult(0).user_begin());
      isKnown = product && product.getCallee() == "aten.mm.default" &&
                getOperand(product, "self") == call.getResult(0) &&
                isSame(getOperand(product, "mat2"), head.hidden) &&
                takeOnce(head.gradWeight, product);
      take(call);
    } else if (callee == "aten.sum.dim_IntList") {
      auto keeps = dyn_cast_or_null<BoolAttr>(call.getArgument("keepdim"));
      isKnown = head.bias && isIntegerList(call, "dim", 0) && keeps &&
                keeps.getValue() && isNone(call, "dtype") &&
                takeOnce(head.gradBias, call);
    }
    if (!isKnown)
      return fail("'" + (call ? callee : user->getName().getStringRef()) +
                  "' uses the gradient of its logits");
  }
  return true;
}

/// Finds the operations that compute the gradients of loss and sums. None may
/// depend on the loss, except for the ones with which the backward pass begins.
bool LossMatcher::findSeeds() {
  llvm::SmallSetVector<Operation *, 8> found;
  SmallVector<Value> reached;
  for (Value gradient : {head.gradient, head.sumGradient,
                         head.teacher ? head.teacher->gradient : Value()})
    if (gradient)
      reached.push_back(gradient);
  while (!reached.empty()) {
    Operation *op = reached.pop_back_val().getDefiningOp();
    if (op && llvm::is_contained(head.dependants, op))
      return fail("the gradient of the loss depends on its value");
    if (!op || op->isBeforeInBlock(head.place) || !found.insert(op))
      continue;
    auto call = dyn_cast<CallOp>(op);
    bool mayMove = call ? !call.drawsRandomNumbers()
                        : isa<ReadLossScaleOp, ReadLossWeightOp>(op);
    if (head.calls.contains(op) || !mayMove)
      return fail("the gradient of the loss depends on its value");
    if (call && call.getCallee() == "aten.ones_like.default")
      continue; // its operand gives the shape
    reached.append(op->operand_begin(), op->operand_end());
  }
  head.seeds.assign(found.begin(), found.end());
  llvm::sort(head.seeds, [](Operation *one, Operation *other) {
    return one->isBeforeInBlock(other);
  });
  return true;
}
