// SPDX-License-Identifier: Apache-2.0
//
// Defines the verifiers of the operations that move values of the forward pass
// to host memory and back.

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"

using namespace mlir;
using namespace fcdp;

DropValueOp StoreValueOp::getDrop() {
  for (Operation *user : getStored().getUsers())
    if (auto drop = dyn_cast<DropValueOp>(user))
      return drop;
  return {};
}

LogicalResult StoreValueOp::verify() {
  if (!isa_and_present<aten::CallOp>(getValue().getDefiningOp())) // C1
    return emitOpError("expected a result of a call");
  for (Operation *user : getValue().getUsers()) // C1
    if (user != *this && isa<StoreValueOp>(user)) {
      InFlightDiagnostic diag = emitOpError("the value is stored twice");
      diag.attachNote(user->getLoc()) << "also stored here";
      return diag;
    }
  BufferAttr buffer = getPlaceAttr();
  int64_t bytes = byteSize(getValue().getType());
  if (buffer && (buffer.getArena() != Arena::host || // C3
                 buffer.getBytes() != bytes || buffer.getNodeStride() != 0 ||
                 buffer.getLocalStride() < buffer.getOffset() + bytes))
    return emitOpError("expected a place of ")
           << bytes << " bytes in the rank's part of host memory, got "
           << buffer;
  if (int64_t drops = llvm::count_if(getStored().getUsers(),
                                     llvm::IsaPred<DropValueOp>);
      drops != 1) // C4
    return emitOpError("expected one operation that drops the value, got ")
           << drops;
  return success();
}

LogicalResult DropValueOp::verify() {
  auto store = getStored().getDefiningOp<StoreValueOp>();
  if (!store || store.getValue() != getValue()) // C1
    return emitOpError("expected the result of an operation that stores the "
                       "value");
  return verifyLastUse(*this, getValue()); // C2
}

LogicalResult LoadValueOp::verify() {
  auto store = getStored().getDefiningOp<StoreValueOp>();
  if (!store) // C1
    return emitOpError("expected the result of an operation that stores a "
                       "value");
  DropValueOp drop = store.getDrop();
  if (drop && drop->getBlock() == (*this)->getBlock() &&
      !drop->isBeforeInBlock(*this)) { // C1
    InFlightDiagnostic diag =
        emitOpError("expected the value to be dropped before");
    diag.attachNote(drop.getLoc()) << "dropped here";
    return diag;
  }
  return success();
}
