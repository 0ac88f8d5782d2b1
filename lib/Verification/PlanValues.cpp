// SPDX-License-Identifier: Apache-2.0
//
// Checks the copies of values of the forward pass to host memory and back. That
// no other result is in a value's device memory before it is dropped follows
// from the places of results (ResultPlaces.h), for which dropping is the last
// use.

#include "PlanRun.h"

using namespace mlir;
using namespace fcdp;

static constexpr size_t kCompute = static_cast<size_t>(Stream::compute);

/// Returns the place in the part of local rank 0. The parts of the others have
/// the same layout.
Extent PlanRun::getHostExtent(StoreValueOp store) const {
  BufferAttr buffer = store.getPlaceAttr();
  return {buffer.getOffset(), buffer.getOffset() + buffer.getBytes()};
}

/// Checks that the copy begins when compute has made the value.
LogicalResult PlanRun::storeValue(StoreValueOp store) {
  if (!store.getPlaceAttr())
    return emitError() << "expected a place; run --fcdp-verify-planned";
  auto stream = static_cast<size_t>(current->stream);
  OpIndex made = madeAt.lookup(store.getValue().getDefiningOp());
  if (!made || !now->clocks.isOrdered(stream, kCompute, made)) {
    InFlightDiagnostic diag = emitError();
    diag << "stores a value before '" << stringifyStream(current->stream)
         << "' has waited for compute, which makes it";
    if (made)
      attachNote(diag, made, "made here");
    return diag;
  }
  Content content;
  content.kind = ContentKind::other;
  Extent extent = getHostExtent(store);
  content.begin = extent.begin;
  content.end = extent.end;
  int32_t id = storedAs[store] = addContent(content);
  storedAt[store] = issued.size() - 1;
  return access(Arena::host, extent, Mode::write, id);
}

/// Checks that the copy is complete. After the drop, compute may overwrite the
/// memory.
LogicalResult PlanRun::dropValue(DropValueOp drop) {
  auto store = drop.getStored().getDefiningOp<StoreValueOp>();
  OpIndex stored = storedAt.lookup(store);
  if (stored && now->clocks.isOrdered(
                    kCompute, static_cast<size_t>(getStream(store)), stored))
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "drops a value before compute has waited for the copy to host memory";
  if (stored)
    attachNote(diag, stored, "stored here");
  return diag;
}

LogicalResult PlanRun::readStored(const Extent &extent, Operation *writer,
                                  StringRef what) {
  int32_t expected = storedAs.lookup(writer);
  if (!expected)
    return emitError() << "loads " << what << " that has not been stored";
  if (failed(access(Arena::host, extent, Mode::read)))
    return failure();
  int32_t foreign = expected;
  now->arenas[Arena::host].visitContents(extent, [&](int32_t content) {
    foreign = content;
    return content == expected;
  });
  if (foreign == expected)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "loads " << what << " whose host memory, bytes [" << extent.begin
       << ", " << extent.end << "), has been overwritten";
  attachWriter(diag, contents[expected], "the value is written here");
  attachWriter(diag, contents[foreign], "and overwritten here");
  return diag;
}

/// Checks that host memory still has the value, and that it was complete there.
LogicalResult PlanRun::loadValue(const PlanInstruction &instruction) {
  auto load = ::cast<LoadValueOp>(instruction.op);
  auto store = load.getStored().getDefiningOp<StoreValueOp>();
  if (failed(readStored(getHostExtent(store), store, "a value")))
    return failure();
  Content content;
  content.kind = ContentKind::other;
  return writeResult(instruction, content);
}
