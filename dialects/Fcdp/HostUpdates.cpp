// SPDX-License-Identifier: Apache-2.0
//
// Defines the operations that update states in host memory on the node's
// processors.

#include "dialects/Fcdp/StatePieces.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

bool fcdp::canUpdateOnHost(OptimizerAttrInterface optimizer) {
  return getPieceUnit(optimizer).has_value();
}

int64_t StoreGradientOp::getShardOffset() {
  constexpr int64_t gradientBytes = 4, alignment = 64;
  return static_cast<int64_t>(llvm::alignTo(
      gradientBytes * getStored().getType().getTensor().getNumElements(),
      alignment));
}

int64_t StoreGradientOp::getStoredBytes() {
  return getShardOffset() + byteSize(getStored().getType().getTensor());
}

RankedTensorType StoreGradientOp::getCopiedType() {
  RankedTensorType shard = getStored().getType().getTensor();
  int64_t bytes = shard.getNumElements() * 4;
  if (getShard())
    bytes += byteSize(shard);
  return RankedTensorType::get(
      {bytes}, IntegerType::get(getContext(), 8, IntegerType::Unsigned));
}

LogicalResult
StoreGradientOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto bucket =
      symbols.lookupNearestSymbolFrom<BucketOp>(*this, getSourceAttr());
  if (!bucket || !bucket.getUpdatedOnHost()) // C1
    return emitOpError("expected a bucket with 'update host', got ")
           << getSourceAttr();
  auto begin = static_cast<int64_t>(getBegin());
  auto end = static_cast<int64_t>(getEnd());
  int64_t all = countShardElements(bucket);
  if (begin >= end || end > all) // C2
    return emitOpError("expected a piece of the ")
           << all << " elements of the shard, got " << begin << " to " << end;
  auto expected = RankedTensorType::get({end - begin}, bucket.getStorage());
  if (getStored().getType().getTensor() != expected) // C2
    return emitOpError("expected memory of ")
           << expected << ", got " << getStored().getType().getTensor();
  if (getShard() == bucket.getMaster().has_value()) // C3
    return emitOpError(getShard() ? "expected no 'shard', as the bucket has a "
                                    "master in host memory"
                                  : "expected 'shard', as the bucket has no "
                                    "master");
  BufferAttr buffer = getPlaceAttr();
  int64_t bytes = getStoredBytes();
  if (buffer && (buffer.getArena() != Arena::host || // C5
                 buffer.getBytes() != bytes || buffer.getNodeStride() != 0 ||
                 buffer.getLocalStride() < buffer.getOffset() + bytes))
    return emitOpError("expected a place of ")
           << bytes << " bytes in the rank's part of host memory, got "
           << buffer;
  return success();
}

LogicalResult HostUpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto store = getGradient().getDefiningOp<StoreGradientOp>();
  if (!store || store.getSourceAttr() != getTargetAttr() ||
      store.getBegin() != getBegin() || store.getEnd() != getEnd()) // C1
    return emitOpError("expected the gradient of elements ")
           << getBegin() << " to " << getEnd() << " of " << getTargetAttr();
  auto bucket =
      symbols.lookupNearestSymbolFrom<BucketOp>(*this, getTargetAttr());
  if (!bucket) // the gradient's operation refuses it
    return success();
  if (failed(verifyOptimizer(*this, symbols, bucket))) // C2
    return failure();
  std::optional<int64_t> unit = getPieceUnit(getSettings());
  if (!unit) // C2
    return emitOpError("expected an optimizer that updates elements, got '")
           << getSettings().getName() << "', which updates whole parameters";
  if (getBegin() % *unit != 0 || getEnd() % *unit != 0) // C2
    return emitOpError("expected a piece of whole blocks of ")
           << *unit << " elements, which '" << getSettings().getName()
           << "' needs, got elements " << getBegin() << " to " << getEnd();
  return success();
}

LogicalResult LoadShardOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto update = getUpdated().getDefiningOp<HostUpdateOp>();
  if (update && update.getTargetAttr() == getTargetAttr() &&
      update.getBegin() == getBegin()) // C1
    return success();
  return emitOpError("expected the update of the piece of ")
         << getTargetAttr() << " that begins at element " << getBegin();
}
