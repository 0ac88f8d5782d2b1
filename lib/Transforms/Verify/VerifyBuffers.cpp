// SPDX-License-Identifier: Apache-2.0
//
// Checks that a plan gives places, of the right sizes. --fcdp-verify-plan
// proves that they are correct.

#include "VerifyPhase.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/InPlaceGradients.h"

using namespace mlir;
using namespace fcdp;

/// Checks constraint C5 of fcdp.pack.
static LogicalResult verifyInPlace(PackOp pack) {
  ArrayAttr chosen = pack.getInPlaceAttr();
  if (!chosen || chosen.size() == getInPlaceGradients(pack).size())
    return success();
  return pack.emitOpError("expected values in 'in_place' that a call with an "
                          "out-variant makes and nothing else uses");
}

static LogicalResult verifyOp(BufferedOpInterface op) {
  if (auto pack = dyn_cast<PackOp>(op.getOperation());
      pack && failed(verifyInPlace(pack)))
    return failure();
  BufferAttr buffer = op.getBufferAttr();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!buffer || buffer.getBytes() != byteSize(type))
    return op->emitOpError("expected a buffer of ")
           << byteSize(type) << " bytes";
  if (buffer.getOffset() % kMemberAlignment != 0)
    return op->emitOpError("expected a buffer at a multiple of ")
           << kMemberAlignment << " bytes, got " << buffer.getOffset();
  if (FlatSymbolRefAttr into = op.getIntoAttr()) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(op, into);
    if (buffer != state.getBuffer())
      return op->emitOpError("expected the buffer of ")
             << into << ", got " << buffer;
  }
  if (op.getScratchBytes() && !op.getScratchAttr())
    return op->emitOpError("expected a scratch buffer");
  return success();
}

static LogicalResult verifyFunction(func::FuncOp function) {
  for (auto store : function.getOps<StoreValueOp>())
    if (!store.getPlaceAttr())
      return store.emitOpError("expected a place");
  for (auto store : function.getOps<StoreGradientOp>())
    if (!store.getPlaceAttr())
      return store.emitOpError("expected a place");
  for (auto op : function.getOps<BufferedOpInterface>())
    if (failed(verifyOp(op)))
      return failure();
  return success();
}

LogicalResult fcdp::verifyBuffers(ModuleOp module) {
  for (auto state : module.getOps<StateOp>())
    if (!state.getBuffer())
      return state.emitOpError("expected a buffer");
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(verifyFunction(function)))
      return failure();
  return success();
}
