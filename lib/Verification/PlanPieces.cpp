// SPDX-License-Identifier: Apache-2.0
//
// Checks updates of states in host memory or files, which are streamed in
// pieces.

#include "PlanRun.h"

using namespace mlir;
using namespace fcdp;

Extent fcdp::getPieceExtent(const StateModel &state, int64_t begin,
                            int64_t elements) {
  int64_t width =
      elementBytes(StateOp(state.op).getTensorType().getElementType());
  Extent extent = state.extent;
  if (elements == 0)
    return {};
  extent.begin += begin * width;
  extent.end = extent.begin + elements * width;
  return extent;
}

static int64_t countElements(Value value) {
  return ::cast<RankedTensorType>(value.getType()).getNumElements();
}

/// Checks that a piece of a state in a file has its blocks for itself.
/// Transfers read and write whole blocks.
LogicalResult PlanRun::checkBlocks(const StateModel &state, Extent extent) {
  constexpr int64_t block = 4096;
  if (getArena(state) != Arena::file || extent.isEmpty())
    return success();
  bool isLast = extent.end == state.extent.end;
  if (state.extent.begin % block == 0 && extent.begin % block == 0 &&
      (isLast || extent.end % block == 0))
    return success();
  return emitError() << "expected a piece of whole blocks of " << block
                     << " bytes in a file, got bytes " << extent.begin << " to "
                     << extent.end;
}

LogicalResult PlanRun::checkOld(int32_t state, const Extent &piece) {
  const StateModel &model = plan.states[state];
  bool isStarted = updating.count(model.bucket);
  int32_t version = now->versions[model.bucket] - isStarted;
  const Content *foreign = nullptr;
  getMap(model).visitContents(piece, [&](int32_t id) {
    const Content &content = contents[id];
    if (!isFor(state, content) || content.version != version)
      foreign = &content;
    return !foreign;
  });
  if (!foreign)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "loads a piece of @" << StateOp(model.op).getSymName()
       << " that has not the content from the last update";
  attachWriter(diag, *foreign, "last written here");
  return diag;
}

/// Copies a piece of a state to the device. All its bytes must have the content
/// that the last update has left. Other pieces may be newer.
LogicalResult PlanRun::loadPiece(const PlanInstruction &instruction) {
  auto op = ::cast<StateLoadOp>(instruction.op);
  const StateModel &state = plan.states[instruction.state];
  int64_t elements = countElements(op.getResult());
  Extent extent =
      getPieceExtent(state, static_cast<int64_t>(op.getBegin()), elements);
  if (failed(checkBlocks(state, extent)) ||
      failed(access(getArena(state), extent, Mode::read)))
    return failure();
  if (failed(checkOld(instruction.state, extent)))
    return failure();
  bool isStarted = updating.count(instruction.bucket);
  int32_t version = now->versions[instruction.bucket] - isStarted;
  Content content;
  content.kind = ContentKind::optimizer;
  content.bucket = instruction.bucket;
  content.version = version;
  content.pieceOf = instruction.state;
  content.pieceBegin = static_cast<int64_t>(op.getBegin());
  return writeResult(instruction, content);
}

/// Checks that a value is a piece of a state, of this version.
LogicalResult PlanRun::checkPiece(Root window, int32_t state, int64_t begin,
                                  int64_t elements, int32_t version) {
  FailureOr<int32_t> read = readRoot(window);
  if (failed(read))
    return failure();
  const Content &content = contents[*read];
  if (content.kind == ContentKind::optimizer && content.pieceOf == state &&
      content.pieceBegin == begin && content.version == version)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "expected elements " << begin << " to " << begin + elements << " of @"
       << StateOp(plan.states[state].op).getSymName() << " from "
       << (version == now->versions[content.bucket] ? "this" : "the last")
       << " update, got "
       << (content.pieceOf != state      ? "something else"
           : content.pieceBegin != begin ? "other elements"
           : content.version > version   ? "elements that are updated"
                                         : "elements that are not updated");
  attachWriter(diag, content, "it is written here");
  return diag;
}

LogicalResult PlanRun::storePiece(const PlanInstruction &instruction) {
  auto op = ::cast<StateStoreOp>(instruction.op);
  const StateModel &state = plan.states[instruction.state];
  auto begin = static_cast<int64_t>(op.getBegin());
  int64_t elements = countElements(op.getValue());
  int32_t version = now->versions[instruction.bucket];
  if (instruction.reads.size() != 1)
    return emitError() << "expected the value of a buffer";
  if (failed(checkPiece(instruction.reads[0], instruction.state, begin,
                        elements, version)))
    return failure();
  Extent extent = getPieceExtent(state, begin, elements);
  if (failed(checkBlocks(state, extent)))
    return failure();
  int32_t &id = storing[instruction.state];
  if (!id || contents[id].version != version) {
    Content content;
    content.kind = ContentKind::optimizer;
    content.bucket = instruction.bucket;
    content.version = version;
    content.begin = state.extent.begin;
    content.end = state.extent.end;
    id = addContent(content);
    if (state.extent.isEmpty())
      now->emptyContents[instruction.state] = id;
  }
  return access(getArena(state), extent, Mode::write, id);
}

/// Updates the next piece of a shard and the pieces of its states. The first
/// piece makes all copies of the bucket dirty.
LogicalResult PlanRun::updatePiece(const PlanInstruction &instruction) {
  auto op = ::cast<ShardUpdateOp>(instruction.op);
  const BucketModel &bucket = plan.buckets[instruction.bucket];
  int32_t gradState = bucket.getState(StateRole::grad);
  int32_t shard = bucket.getState(StateRole::shard);
  if (gradState < 0 || shard < 0)
    return emitError() << "expected states 'shard' and 'grad'";
  const StateModel &shardModel = plan.states[shard];
  auto begin = static_cast<int64_t>(*op.getBegin());
  auto end = static_cast<int64_t>(*op.getEnd());
  auto found = updating.find(instruction.bucket);
  bool isFirst = found == updating.end();
  if (begin != (isFirst ? 0 : found->second.end))
    return emitError() << "expected the piece that begins at element "
                       << (isFirst ? 0 : found->second.end) << ", got "
                       << begin;
  FailureOr<int32_t> grad = readState(gradState);
  if (failed(grad) ||
      failed(checkComplete(contents[*grad], instruction.bucket)))
    return failure();
  if (isFirst) {
    FailureOr<int32_t> old = readState(shard);
    if (failed(old))
      return failure();
    Content content = contents[*old];
    content.version = ++now->versions[instruction.bucket];
    updating[instruction.bucket] = {0, addContent(content)};
  }
  Updating &state = updating[instruction.bucket];
  int32_t version = now->versions[instruction.bucket];
  SmallVector<StateRole> roles = op.getSettings().getStates();
  if (BucketOp(bucket.op).getMaster())
    roles.push_back(StateRole::master);
  if (roles.size() != instruction.reads.size())
    return emitError() << "expected pieces of " << roles.size()
                       << " different states, got " << instruction.reads.size();
  int64_t all = StateOp(shardModel.op).getTensorType().getNumElements();
  for (auto [role, window] : llvm::zip_equal(roles, instruction.reads)) {
    int32_t of = bucket.getState(role);
    if (of < 0 || window.buffer < 0)
      return emitError() << "expected a piece of a state '"
                         << stringifyStateRole(role) << "'";
    // A state is cut in proportion to the shard.
    int64_t own = StateOp(plan.states[of].op).getTensorType().getNumElements();
    bool isWhole = begin == 0 && end == all;
    int64_t each = std::max<int64_t>(1, all / std::max<int64_t>(1, own));
    int64_t from = isWhole ? 0 : begin / each;
    int64_t count = isWhole ? own : (end - begin) / each;
    if (failed(checkPiece(window, of, from, count, version - 1)))
      return failure();
    Content updated = contents[contentOf[window.buffer]];
    updated.version = version;
    int32_t id = contentOf[window.buffer] = addContent(updated);
    if (failed(access(Arena::device, function->buffers[window.buffer].extent,
                      Mode::write, id)))
      return failure();
  }
  // Gradients are scaled in place.
  if (failed(access(Arena::device,
                    getPieceExtent(shardModel, begin, end - begin), Mode::write,
                    state.content)) ||
      failed(access(Arena::device,
                    getPieceExtent(plan.states[gradState], begin, end - begin),
                    Mode::write, *grad)))
    return failure();
  state.end = end;
  if (end < all)
    return success();
  OpIndex index = issued.size() - 1;
  now->updates[instruction.bucket] = index;
  Content taken = contents[*grad];
  taken.takenBy = index;
  return writeState(gradState, taken);
}
