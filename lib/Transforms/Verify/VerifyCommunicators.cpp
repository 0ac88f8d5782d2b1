// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"

#include <map>

using namespace mlir;
using namespace fcdp;

namespace {
/// The first operation over the axis node, over local, and over both.
template <typename OpTy>
using FirstOps = std::map<std::pair<bool, bool>, OpTy>;
} // namespace

/// Checks that `op` is on the same stream as the first one of its kind.
template <typename OpTy>
static LogicalResult verifyStream(OpTy op, FirstOps<OpTy> &firstOps) {
  std::pair axes(isOver(op.getAxes(), Axis::node),
                 isOver(op.getAxes(), Axis::local));
  OpTy first = firstOps.try_emplace(axes, op).first->second;
  if (*op.getStream() == *first.getStream())
    return success();
  InFlightDiagnostic diagnostic = op.emitOpError("expected stream '")
                                  << stringifyStream(*first.getStream())
                                  << "', got '"
                                  << stringifyStream(*op.getStream())
                                  << "': one stream uses the communicator of "
                                     "all of these over "
                                  << (axes.first && axes.second ? "both axes"
                                      : axes.first ? "axis 'node'"
                                                   : "axis 'local'");
  diagnostic.attachNote(first.getLoc()) << "the first is here";
  return diagnostic;
}

LogicalResult fcdp::verifyCommunicators(ModuleOp module) {
  FirstOps<AllGatherOp> gathers;
  FirstOps<ReduceScatterOp> reductions;
  WalkResult result = module.walk([&](Operation *op) {
    LogicalResult isGood = success();
    if (auto gather = dyn_cast<AllGatherOp>(op))
      isGood = verifyStream(gather, gathers);
    else if (auto reduce = dyn_cast<ReduceScatterOp>(op))
      isGood = verifyStream(reduce, reductions);
    return failed(isGood) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
