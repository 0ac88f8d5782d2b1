// SPDX-License-Identifier: Apache-2.0
//
// Defines the verifiers of the operations that order streams.

#include "dialects/Fcdp/Fcdp.h"

using namespace mlir;
using namespace fcdp;

LogicalResult WaitOp::verify() {
  auto record = getToken().getDefiningOp<RecordOp>();
  if (record && record.getStream() == getStream()) // C1
    return emitOpError("waits on '") << stringifyStream(getStream())
                                     << "' for a token of the same stream";
  return success();
}

LogicalResult fcdp::verifyLastUse(Operation *op, Value value) {
  Block *block = op->getBlock();
  for (Operation *user : value.getUsers()) {
    // A user in another block may run later, independent of its place in the
    // text.
    Operation *place = block->findAncestorOpInBlock(*user);
    if (place && (place == op || place->isBeforeInBlock(op)))
      continue;
    InFlightDiagnostic diag = op->emitOpError("the value is used later");
    diag.attachNote(user->getLoc()) << "used here";
    return diag;
  }
  return success();
}

LogicalResult ReleaseOp::verify() {
  if (!isBuffered(getValue().getDefiningOp())) // C1
    return emitOpError("expected the result of a gather, a load, a cast, a "
                       "pack, a reduction or an addition");
  if (getStream() == Stream::compute) // C3
    return emitOpError("expected another stream than 'compute', which is meant "
                       "without one");
  return verifyLastUse(*this, getValue()); // C2
}
