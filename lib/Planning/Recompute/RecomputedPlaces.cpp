// SPDX-License-Identifier: Apache-2.0
//
// Finds the calls that may run again, and the places where they do.

#include "dialects/Aten/OpTable.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fcdp;

Operation *fcdp::findForwardEnd(func::FuncOp step) {
  auto losses = step.getOps<LossOp>();
  return losses.empty() ? nullptr
                        : (*losses.begin()).getValue().getDefiningOp();
}

/// Returns whether `value` is a view of a buffer that the step changes.
static bool showsChangedBuffer(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isView(op))
    op = op->getOperand(0).getDefiningOp();
  auto read = dyn_cast_or_null<ReadBufferOp>(op);
  if (!read)
    return false;
  auto buffer =
      SymbolTable::lookupNearestSymbolFrom<BufferOp>(op, read.getSourceAttr());
  return buffer && buffer.getMutableBuffer();
}

StringRef fcdp::findReasonToRunOnce(aten::CallOp call) {
  if (call.drawsRandomNumbers())
    return "it may draw random numbers";
  if (mayAlias(call) && !isView(call))
    return "its results may be memory of its operands";
  if (llvm::any_of(call.getOperands(), showsChangedBuffer))
    return "it reads a buffer that the step changes";
  for (Value result : call.getResults())
    if (llvm::any_of(collectMemoryUsers(result),
                     [](Operation *user) { return !isa<aten::CallOp>(user); }))
      return "it computes a result of the step";
  return {};
}

SmallVector<Recomputed>
fcdp::placeRecomputed(func::FuncOp step,
                      function_ref<bool(aten::CallOp)> isChosen) {
  SmallVector<Recomputed> places;
  Operation *end = findForwardEnd(step);
  if (!end)
    return places;
  // This is decided for all calls up to the end. A view runs again if the call
  // that it shows does.
  llvm::DenseSet<Operation *> runsAgain, placed;
  for (Operation &op : step.front()) {
    auto call = dyn_cast<aten::CallOp>(op);
    if (call && (isChosen(call) ||
                 (isView(call) &&
                  runsAgain.contains(call->getOperand(0).getDefiningOp()))))
      runsAgain.insert(call);
    if (&op == end)
      break;
  }
  for (Operation *user = end->getNextNode(); user; user = user->getNextNode()) {
    llvm::SetVector<Operation *> needed;
    auto need = [&](Operation *reader) {
      for (Value operand : reader->getOperands()) {
        Operation *op = operand.getDefiningOp();
        if (runsAgain.contains(op) && placed.insert(op).second)
          needed.insert(op);
      }
    };
    need(user);
    for (size_t next = 0; next < needed.size(); ++next)
      need(needed[next]);
    if (needed.empty())
      continue;
    SmallVector<Operation *> ops = needed.takeVector();
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    places.push_back({user, std::move(ops)});
  }
  return places;
}
