// SPDX-License-Identifier: Apache-2.0
//
// Checks outer steps, in which only some steps synchronize nodes.

#include "TargetCounts.h"
#include "VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"

using namespace mlir;
using namespace fcdp;

LogicalResult
fcdp::verifyStatesOfNodes(BucketOp bucket,
                          function_ref<bool(StateRole)> hasState) {
  auto outer = getOuter(bucket->getParentOfType<ModuleOp>());
  std::optional<uint64_t> fragment = bucket.getOuter();
  if (bucket.getTrainable() && fragment.has_value() != !!outer)
    return bucket.emitOpError("expected ")
           << (outer ? "a fragment 'outer', as" : "no 'outer', unless")
           << " the module has 'fcdp.outer'";
  if (!fragment || !outer)
    return success();
  if (*fragment >= static_cast<uint64_t>(outer.getFragments()))
    return bucket.emitOpError("expected 'outer' below the ")
           << outer.getFragments() << " fragments of 'fcdp.outer', got "
           << *fragment;
  for (StateRole role : outer.getStates())
    if (!hasState(role))
      return bucket.emitOpError("expected a state '")
             << stringifyStateRole(role) << "' of it";
  return success();
}

LogicalResult fcdp::verifySynchronization(ModuleOp module,
                                          func::FuncOp function) {
  if (!isOuter(getRole(function)))
    return success();
  for (Operation &op : function.front())
    if (!isMicrobatch(getRole(function)) &&
        !isa<OuterDifferenceOp, OuterUpdateOp, CollectiveOpInterface, RecordOp,
             WaitOp, ReleaseOp, func::ReturnOp>(op))
      return op.emitOpError("may not appear in @") << function.getSymName();
  Counts counts = countTargets<OuterUpdateOp>(function);
  for (auto bucket : module.getOps<BucketOp>()) {
    bool isOf =
        bucket.getOuter() == std::optional<uint64_t>(getNumber(function));
    StringAttr name = bucket.getSymNameAttr();
    if (failed(verifyCount(function, "outer update", name, isOf,
                           counts.lookup(name))))
      return failure();
  }
  return success();
}

LogicalResult fcdp::verifyDifferences(ModuleOp module, func::FuncOp function) {
  if (!isOuter(getRole(function)))
    for (Operation &op : function.front())
      if (isa<OuterDifferenceOp, OuterUpdateOp>(op))
        return op.emitOpError("may not appear in @") << function.getSymName();
  double expected = 1.0 / static_cast<double>(getMesh(module).getNode());
  for (auto update : function.getOps<OuterUpdateOp>())
    if (double found = update.getScale().convertToDouble(); found != expected)
      return update.emitOpError("expected a scale of ")
             << expected << ", 1 / nodes, got " << found;
  return success();
}
