// SPDX-License-Identifier: Apache-2.0

#include "Shard/LossMatcher.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

std::string LossMatcher::match(CallOp loss) {
  bool isMatched;
  if (comparesLogits(loss)) {
    isMatched = matchTeacher(loss);
  } else {
    head.loss = loss;
    isMatched = matchForm();
    if (CallOp other = isMatched ? findComparison() : CallOp())
      isMatched = matchTeacher(other);
  }
  if (isMatched && checkReaders() && matchBackward() && checkTypes() &&
      checkUsers() && findPlace() && checkOrder() && findSeeds())
    return "";
  return reason;
}

/// Checks that only the forward pass and its backward pass read logits and
/// log-probabilities.
bool LossMatcher::checkReaders() {
  for (Operation *op : head.calls) {
    if (op == head.loss || op == head.sums || ofTeacher.contains(op) ||
        (head.teacher && op == head.teacher->sum))
      continue;
    for (Operation *user : op->getUsers()) {
      auto call = dyn_cast<CallOp>(user);
      bool isKnown =
          head.calls.contains(user) ||
          (call &&
           (isReshape(call) ||
            llvm::is_contained({"aten.nll_loss_backward.default",
                                "aten._log_softmax_backward_data.default",
                                "aten.tanh_backward.default"},
                               call.getCallee())));
      if (!isKnown)
        return failForUser(user);
    }
  }
  return true;
}

bool LossMatcher::failForUser(Operation *user) {
  auto call = dyn_cast<CallOp>(user);
  return fail("its logits have another user, '" +
              (call ? call.getCallee() : user->getName().getStringRef()) + "'");
}

/// Checks that no other operation reads logits, log-probabilities, or their
/// gradients.
bool LossMatcher::checkUsers() {
  Operation *ends[] = {
      head.loss,       head.sums,
      head.gradHidden, head.gradWeight,
      head.gradBias,   head.teacher ? head.teacher->sum : CallOp()};
  for (Operation *op : head.calls) {
    if (llvm::is_contained(ends, op))
      continue;
    for (Operation *user : op->getUsers()) {
      if (head.calls.contains(user))
        continue;
      // A detached value, which the backward pass reads.
      if (auto call = dyn_cast<CallOp>(user);
          call && isReshape(call) &&
          llvm::all_of(call->getUsers(), [&](Operation *reader) {
            return head.calls.contains(reader);
          }))
        continue;
      return failForUser(user);
    }
  }
  // Views that only these calls use go with them.
  SmallVector<Operation *> views;
  for (Operation *op : head.calls)
    if (!llvm::is_contained(ends, op))
      for (Operation *user : op->getUsers())
        views.push_back(user);
  for (Operation *view : views)
    head.calls.insert(view);
  return true;
}

/// Finds the place at which all operands are known: that of the cross entropy,
/// or of the comparison with a teacher if that comes later. Operations between
/// these places that depend on the first one move.
bool LossMatcher::findPlace() {
  head.place = head.loss;
  if (!head.teacher)
    return true;
  Operation *sum = head.teacher->sum;
  if (!head.loss) {
    head.place = sum;
    return true;
  }
  head.place = sum->isBeforeInBlock(head.loss) ? head.loss : sum;
  Operation *first = head.place == sum ? CallOp(head.loss) : head.teacher->sum;
  if (head.sums && head.sums->isBeforeInBlock(first))
    first = head.sums;
  llvm::DenseSet<Operation *> reached = {head.loss, sum, head.sums};
  for (Operation *op = first->getNextNode(); op != head.place;
       op = op->getNextNode()) {
    if (llvm::none_of(op->getOperands(),
                      [&](Value operand) {
                        Operation *from = operand.getDefiningOp();
                        return from && reached.contains(from);
                      }) ||
        head.calls.contains(op))
      continue;
    auto call = dyn_cast<CallOp>(op);
    if (!call || call.drawsRandomNumbers())
      return fail("an operation between its labels and its teacher depends on "
                  "it");
    reached.insert(op);
    head.dependants.push_back(op);
  }
  return true;
}

/// Checks that all results may be computed at that place.
bool LossMatcher::checkOrder() {
  if (head.sums)
    for (Operation *user : head.sums->getUsers())
      if (user->isBeforeInBlock(head.place) &&
          !llvm::is_contained(head.dependants, user))
        return fail("sums of its log-probabilities are used before it");
  return true;
}

/// Checks the types of all values that the chunked loss has as well.
bool LossMatcher::checkTypes() {
  auto has = [](CallOp call, Type type) {
    return !call || call.getResult(0).getType() == type;
  };
  const bool fitsProducts =
      has(head.gradHidden, head.hidden.getType()) &&
      has(head.gradWeight, head.weight.getType()) &&
      has(head.gradBias,
          RankedTensorType::get({1, head.getVocabulary()}, modelType));
  if (!head.loss || !fitsProducts)
    return (fitsProducts && checkTeacherTypes()) ||
           fail("its tensors are not of the types of a cross entropy");
  const ArrayRef<int64_t> shape = head.logProbs.getShape().drop_back();
  SmallVector<int64_t> column(shape);
  column.push_back(1);
  Type one = RankedTensorType::get({}, lossType),
       byRow = RankedTensorType::get(shape, lossType),
       byColumn = RankedTensorType::get(column, lossType),
       ofLoss = head.reduction == 0 ? byRow : one;
  Type integer = IntegerType::get(one.getContext(), 64);
  auto isByRow = [&](Value value) {
    return !value || value.getType() == byRow || value.getType() == byColumn;
  };
  bool fits =
      head.isGathered()
          ? head.labels.getType() == RankedTensorType::get(column, integer) &&
                has(head.loss, byColumn) && isByRow(head.gradient)
          : head.labels.getType() == RankedTensorType::get(shape, integer) &&
                has(head.loss, ofLoss) &&
                head.loss.getResult(1).getType() == one &&
                (!head.gradient || head.gradient.getType() == ofLoss);
  fits = fits && isByRow(head.sumGradient) &&
         isByRow(head.sums ? head.sums.getResult(0) : Value()) &&
         (!head.teacher || checkTeacherTypes());
  return fits || fail("its tensors are not of the types of a cross entropy");
}

std::string fcdp::matchLossHead(CallOp loss, LossHead &head) {
  return LossMatcher(head).match(loss);
}
