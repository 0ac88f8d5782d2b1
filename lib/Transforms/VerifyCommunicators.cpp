// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"

#include <map>

using namespace mlir;
using namespace fcdp;

namespace {
/// The first operation of each axis.
template <typename OpTy>
using FirstOps = std::map<Axis, OpTy>;
} // namespace

/// Checks that `op` is on the stream that the first of its kind is on.
template <typename OpTy>
static LogicalResult verifyStream(OpTy op, FirstOps<OpTy> &firstOps) {
  Axis axis = cast<AxisAttr>(op.getAxes()[0]).getValue();
  OpTy first = firstOps.try_emplace(axis, op).first->second;
  if (*op.getStream() == *first.getStream())
    return success();
  InFlightDiagnostic diagnostic = op.emitOpError("expected stream '")
                                  << stringifyStream(*first.getStream())
                                  << "', got '"
                                  << stringifyStream(*op.getStream())
                                  << "': one stream uses the communicator of "
                                     "all of these over axis '"
                                  << stringifyAxis(axis) << "'";
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
