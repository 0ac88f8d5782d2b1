// SPDX-License-Identifier: Apache-2.0

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"

using namespace mlir;
using namespace fcdp;

#include "dialects/Fcdp/FcdpInterfaces.cpp.inc"

bool fcdp::isOver(ArrayAttr axes, Axis axis) {
  return llvm::any_of(axes.getAsRange<AxisAttr>(),
                      [&](AxisAttr other) { return other.getValue() == axis; });
}

ArrayAttr fcdp::oneAxis(MLIRContext *context, Axis axis) {
  return ArrayAttr::get(context, {AxisAttr::get(context, axis)});
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Stream fcdp::getStream(Operation *op) {
  auto streamed = dyn_cast<StreamedOpInterface>(op);
  StreamAttr stream = streamed ? streamed.getStreamAttr() : StreamAttr();
  return stream ? stream.getValue() : Stream::compute;
}

Stream fcdp::chooseStream(Operation *op) {
  auto streamed = dyn_cast<StreamedOpInterface>(op);
  return streamed ? streamed.chooseStream() : Stream::compute;
}

// A collective over both axes counts as one between nodes, because the network
// determines its time.
Stream AllGatherOp::chooseStream() {
  return isOverAxis(Axis::node) ? Stream::inter : Stream::intra;
}

// Gathers must not queue after a reduction, which waits for its gradients and
// for its first step.
Stream ReduceScatterOp::chooseStream() {
  return isOverAxis(Axis::node) ? Stream::inter_reduce : Stream::intra_reduce;
}

Stream AccumulateOp::chooseStream() {
  Operation *producer = getLate() ? getValue().getDefiningOp() : nullptr;
  return producer ? fcdp::chooseStream(producer) : Stream::compute;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

bool fcdp::isBuffered(Operation *op) {
  return isa_and_present<BufferedOpInterface>(op);
}

BufferAttr fcdp::getBuffer(Operation *op) {
  auto buffered = dyn_cast<BufferedOpInterface>(op);
  return buffered ? buffered.getBufferAttr() : BufferAttr();
}

FlatSymbolRefAttr fcdp::getInto(Operation *op) {
  auto buffered = dyn_cast<BufferedOpInterface>(op);
  return buffered ? buffered.getIntoAttr() : FlatSymbolRefAttr();
}

FlatSymbolRefAttr fcdp::getStorage(Operation *op) {
  auto user = dyn_cast<StorageOpInterface>(op);
  return user ? user.getStorageAttr() : FlatSymbolRefAttr();
}

bool fcdp::runsOperators(Operation *op) {
  return isa<aten::CallOp>(op) || op->hasTrait<RunsOperators>();
}

/// Verifies that `buffer`, if given, is device memory of at least `bytes`.
/// `what` names the buffer in the error.
static LogicalResult verifyBuffer(Operation *op, BufferAttr buffer,
                                  int64_t bytes, StringRef what) {
  if (!buffer ||
      (buffer.getArena() == Arena::device && buffer.getBytes() >= bytes))
    return success();
  return op->emitOpError("expected a ")
         << what << " of " << bytes << " bytes in device memory, got "
         << buffer;
}

// Verifies C5 of all_gather and reduce_scatter, C4 of pack, C3 of add and
// cache_load, and C2 of cast_shard.
LogicalResult fcdp::verifyPlaces(BufferedOpInterface op) {
  if (!op.getBufferAttr() && !op.getScratchAttr())
    return success();
  auto flat = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!flat)
    return op->emitOpError("a shard without layout has no buffer");
  if (failed(verifyBuffer(op, op.getBufferAttr(), byteSize(flat), "buffer")))
    return failure();
  return verifyBuffer(op, op.getScratchAttr(), op.getScratchBytes().value_or(0),
                      "scratch buffer");
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

CollectiveOpInterface fcdp::asGather(Operation *op) {
  auto collective = dyn_cast_or_null<CollectiveOpInterface>(op);
  return collective && collective.isGather() ? collective
                                             : CollectiveOpInterface();
}

CollectiveOpInterface fcdp::asReduction(Operation *op) {
  auto collective = dyn_cast_or_null<CollectiveOpInterface>(op);
  return collective && collective.isReduction() ? collective
                                                : CollectiveOpInterface();
}

int64_t CollectiveOpInterface::getPartBytes() {
  auto type = cast<RankedTensorType>(getInput().getType());
  if (!isReduction())
    return byteSize(type);
  auto part = cast<RankedTensorType>(getResult().getType());
  return part.getNumElements() * elementBytes(type.getElementType());
}
