// SPDX-License-Identifier: Apache-2.0

#include "Places.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fcdp;

BufferAttr fcdp::slice(BufferAttr buffer, int64_t offset, int64_t bytes) {
  return BufferAttr::get(buffer.getContext(), buffer.getArena(),
                         buffer.getOffset() + offset, bytes,
                         buffer.getNodeStride(), buffer.getLocalStride());
}

LogicalResult Places::addState(StateOp state) {
  if (!state.getBuffer())
    return state.emitOpError("expected a buffer; run --fcdp-plan-memory first");
  states[{state.getBucketAttr().getAttr(),
          static_cast<unsigned>(state.getRole())}] = state;
  byName[state.getSymNameAttr()] = state;
  return success();
}

FailureOr<BufferAttr> Places::find(ReadShardOp read) const {
  StateOp shard = lookup(read.getSourceAttr().getAttr(), StateRole::shard);
  if (!shard)
    return read.emitOpError("expected a bucket with a state 'shard', got ")
           << read.getSourceAttr();
  return *shard.getBuffer();
}

FailureOr<BufferAttr> Places::find(ReadStateOp read) const {
  StateOp state = lookup(read.getSourceAttr().getAttr());
  if (!state)
    return read.emitOpError("expected a state, got ") << read.getSourceAttr();
  return *state.getBuffer();
}

FailureOr<BufferAttr> Places::find(ViewMemberOp view) const {
  BufferAttr whole = lookup(view.getWhole());
  if (!whole)
    return view.emitOpError("expected a bucket that has a place in an arena");
  auto type = cast<RankedTensorType>(view.getResult().getType());
  int64_t element = members.lookup(
      {view.getBucketAttr().getAttr(), view.getParameterAttr().getAttr()});
  return slice(whole, element * elementBytes(type.getElementType()),
               byteSize(type));
}

BufferAttr Places::getMember(PackOp pack, FlatSymbolRefAttr parameter) const {
  int64_t element =
      members.lookup({pack.getBucketAttr().getAttr(), parameter.getAttr()});
  Type type = pack.getResult().getType().getElementType();
  RankedTensorType whole = parameters.lookup(parameter.getAttr());
  return slice(lookup(pack.getResult()), element * elementBytes(type),
               whole.getNumElements() * elementBytes(type));
}

void Places::addBucket(BucketOp bucket) {
  buckets[bucket.getSymNameAttr()] = bucket;
  for (MemberAttr member : bucket.getMembers().getAsRange<MemberAttr>())
    members[{bucket.getSymNameAttr(), member.getParameter().getAttr()}] =
        member.getOffset();
}

LogicalResult Places::addResult(Operation *op) {
  if (op->getNumResults() != 1)
    return success();
  FailureOr<BufferAttr> buffer = BufferAttr();
  if (auto read = dyn_cast<ReadShardOp>(op))
    buffer = find(read);
  else if (auto read = dyn_cast<ReadStateOp>(op))
    buffer = find(read);
  else if (auto view = dyn_cast<ViewMemberOp>(op))
    buffer = find(view);
  else if (isBuffered(op)) {
    buffer = getBuffer(op);
    if (!*buffer)
      return op->emitOpError("expected a buffer; run --fcdp-plan-memory first");
  }
  if (failed(buffer))
    return failure();
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (*buffer && type)
    ofValue[op->getResult(0)] = slice(*buffer, 0, byteSize(type));
  return success();
}

FailureOr<Places> Places::compute(ModuleOp module) {
  Places places;
  for (auto parameter : module.getOps<ParameterOp>())
    places.parameters[parameter.getSymNameAttr()] = parameter.getTensorType();
  for (auto bucket : module.getOps<BucketOp>())
    places.addBucket(bucket);
  for (auto state : module.getOps<StateOp>())
    if (failed(places.addState(state)))
      return failure();
  for (auto function : module.getOps<func::FuncOp>())
    for (Block &block : function.getBody())
      for (Operation &op : block)
        if (failed(places.addResult(&op)))
          return failure();
  return places;
}
