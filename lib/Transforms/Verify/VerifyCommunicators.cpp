// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace fcdp;

namespace {
/// The first collective of each kind over the axis node, over local, and over
/// both.
using FirstOps =
    std::map<std::tuple<CollectiveKind, bool, bool>, CollectiveOpInterface>;
} // namespace

/// Checks that `op` is on the same stream as the first one of its kind.
static LogicalResult verifyStream(CollectiveOpInterface op,
                                  FirstOps &firstOps) {
  bool isOverNodes = op.isOverAxis(Axis::node);
  bool isOverLocal = op.isOverAxis(Axis::local);
  CollectiveOpInterface first =
      firstOps.try_emplace({op.getKind(), isOverNodes, isOverLocal}, op)
          .first->second;
  if (getStream(op) == getStream(first))
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("expected stream '")
                                  << stringifyStream(getStream(first))
                                  << "', got '"
                                  << stringifyStream(getStream(op))
                                  << "': one stream uses the communicator of "
                                     "all of these over "
                                  << (isOverNodes && isOverLocal ? "both axes"
                                      : isOverNodes ? "axis 'node'"
                                                    : "axis 'local'");
  diagnostic.attachNote(first.getLoc()) << "the first is here";
  return diagnostic;
}

LogicalResult fcdp::verifyCommunicators(ModuleOp module) {
  FirstOps firstOps;
  WalkResult result = module.walk([&](CollectiveOpInterface op) {
    return failed(verifyStream(op, firstOps)) ? WalkResult::interrupt()
                                              : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
