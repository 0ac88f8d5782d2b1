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

Places::Places(ModuleOp module) : symbols(module) {
  auto number = [&](auto ops) {
    for (auto [position, op] : llvm::enumerate(ops))
      positions[op.getSymNameAttr()] = position;
  };
  number(module.getOps<BucketOp>());
  number(module.getOps<BufferOp>());
  number(module.getOps<InputOp>());
  for (auto bucket : module.getOps<BucketOp>())
    for (auto member : bucket.getMembers().getAsRange<MemberAttr>())
      members[{bucket.getSymNameAttr(), member.getParameter().getAttr()}] =
          member.getOffset();
}

BufferAttr Places::getMember(PackOp pack, FlatSymbolRefAttr parameter) const {
  int64_t element =
      members.lookup({pack.getBucketAttr().getAttr(), parameter.getAttr()});
  Type type = pack.getResult().getType().getElementType();
  auto whole = lookup<ParameterOp>(parameter.getAttr()).getTensorType();
  return slice(lookup(pack.getResult()), element * elementBytes(type),
               whole.getNumElements() * elementBytes(type));
}

LogicalResult Places::addState(StateOp state) {
  if (!state.getBuffer())
    return state.emitOpError("expected a buffer; run --fcdp-plan-memory first");
  states[{state.getBucketAttr().getAttr(),
          static_cast<unsigned>(state.getRole())}] = state;
  return success();
}

FailureOr<BufferAttr> Places::findPlace(ViewMemberOp view) const {
  BufferAttr whole = lookup(view.getWhole());
  if (!whole)
    return view.emitOpError("expected a bucket that has a place in an arena");
  RankedTensorType type = view.getResult().getType();
  int64_t element = members.lookup(
      {view.getBucketAttr().getAttr(), view.getParameterAttr().getAttr()});
  return slice(whole, element * elementBytes(type.getElementType()),
               byteSize(type));
}

/// Returns the memory of the operation's result, or null if an ATen operator
/// allocates it.
FailureOr<BufferAttr> Places::findPlace(Operation *op) const {
  if (auto read = dyn_cast<ReadShardOp>(op)) {
    if (auto shard = lookup(read.getSourceAttr().getAttr(), StateRole::shard))
      return *shard.getBuffer();
    return op->emitOpError("expected a bucket with a state 'shard', got ")
           << read.getSourceAttr();
  }
  if (auto read = dyn_cast<ReadStateOp>(op)) {
    if (auto state = lookup<StateOp>(read.getSourceAttr().getAttr()))
      return *state.getBuffer();
    return op->emitOpError("expected a state, got ") << read.getSourceAttr();
  }
  if (auto view = dyn_cast<ViewMemberOp>(op))
    return findPlace(view);
  if (!isBuffered(op))
    return BufferAttr();
  if (BufferAttr buffer = getBuffer(op))
    return buffer;
  return op->emitOpError("expected a buffer; run --fcdp-plan-memory first");
}

LogicalResult Places::addResult(Operation *op) {
  if (op->getNumResults() != 1)
    return success();
  FailureOr<BufferAttr> place = findPlace(op);
  if (failed(place))
    return failure();
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (*place && type)
    ofValue[op->getResult(0)] = slice(*place, 0, byteSize(type));
  return success();
}

FailureOr<Places> Places::compute(ModuleOp module) {
  Places places(module);
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
