// SPDX-License-Identifier: Apache-2.0

#include "PlanParts.h"

#include "fcdp/Analysis/StepFunctions.h"

#include <map>

using namespace mlir;
using namespace fcdp;

/// Returns whether `op` is an operation for the runtime.
static bool isCall(Operation *op, const Places &places) {
  auto accumulate = dyn_cast<AccumulateOp>(op);
  if (!accumulate)
    return !isa<func::ReturnOp>(op) && !op->hasTrait<RunsNothing>();
  // A reduction may write directly to the accumulator that it starts.
  StateOp sum = places.getAccumulator(accumulate);
  return accumulate.getMode() != Accumulate::overwrite || !sum ||
         places.lookup(accumulate.getValue()) != sum.getBuffer();
}

static LogicalResult checkFunction(func::FuncOp function) {
  if (!findRole(function))
    return function.emitError("expected the attribute '")
           << FcdpDialect::RoleAttrHelper::getNameStr() << "' on the function";
  auto isToken = llvm::IsaPred<TokenType>;
  if (!llvm::all_of(function.getArgumentTypes(), isToken) ||
      !llvm::all_of(function.getResultTypes(), isToken))
    return function.emitError("expected tokens only as arguments and results");
  if (!function.getBody().hasOneBlock())
    return function.emitError("expected a function of one block");
  return success();
}

static LogicalResult collectFrom(func::FuncOp function, const Places &places,
                                 std::vector<Operation *> &calls) {
  if (failed(checkFunction(function)))
    return failure();
  for (Operation &op : function.front())
    if (isCall(&op, places))
      calls.push_back(&op);
  return success();
}

FailureOr<std::vector<Operation *>> fcdp::collectCalls(ModuleOp module,
                                                       const Places &places) {
  std::vector<Operation *> calls;
  std::map<FamilyMember, func::FuncOp> roles;
  for (Operation &op : *module.getBody()) {
    if (op.hasTrait<RunsNothing>())
      continue;
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return op.emitOpError("the runtime has no call for this operation");
    if (failed(collectFrom(function, places, calls)))
      return failure();
    FamilyMember which = getMember(function);
    auto [other, isNew] = roles.try_emplace(which, function);
    if (!isNew) {
      InFlightDiagnostic diag = function.emitError("expected one function of "
                                                   "the role '")
                                << stringifyRole(which.role) << "'";
      diag.attachNote(other->second.getLoc()) << "this is another";
      return diag;
    }
  }
  return calls;
}
