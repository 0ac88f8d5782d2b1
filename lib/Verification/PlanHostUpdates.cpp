// SPDX-License-Identifier: Apache-2.0
//
// Checks updates of states in host memory by the node's processors: gradients
// go there, and shards come back, piece by piece.

#include "PlanRun.h"

using namespace mlir;
using namespace fcdp;

static Extent getWindow(StoreGradientOp store) {
  BufferAttr place = store.getPlaceAttr();
  return {place.getOffset(), place.getOffset() + place.getBytes()};
}

LogicalResult PlanRun::readWindow(StoreGradientOp store, Operation *last) {
  return readStored(getWindow(store), last, "a gradient");
}

/// Checks that the gradient is complete. After the last piece, the bucket's
/// gradient is used.
LogicalResult PlanRun::storeGradient(const PlanInstruction &instruction) {
  auto op = ::cast<StoreGradientOp>(instruction.op);
  const BucketModel &bucket = plan.buckets[instruction.bucket];
  int32_t gradState = bucket.getState(StateRole::grad);
  int32_t shard = bucket.getState(StateRole::shard);
  if (gradState < 0 || shard < 0)
    return emitError() << "expected states 'shard' and 'grad'";
  if (!op.getPlaceAttr())
    return emitError() << "expected a place; run --fcdp-verify-planned";
  auto begin = static_cast<int64_t>(op.getBegin());
  auto end = static_cast<int64_t>(op.getEnd());
  FailureOr<int32_t> grad = readState(gradState);
  if (failed(grad) ||
      failed(checkComplete(contents[*grad], instruction.bucket)))
    return failure();
  if (op.getShard()) {
    Extent piece = getPieceExtent(plan.states[shard], begin, end - begin);
    if (failed(access(Arena::device, piece, Mode::read)) ||
        failed(checkOld(shard, piece)))
      return failure();
  }
  Content content;
  content.kind = ContentKind::other;
  content.bucket = instruction.bucket;
  Extent window = getWindow(op);
  content.begin = window.begin;
  content.end = window.end;
  int32_t id = storedAs[op] = addContent(content);
  return access(Arena::host, window, Mode::write, id);
}

/// Updates the next piece of a shard and the pieces of its states. The first
/// piece makes all copies of the bucket dirty.
LogicalResult PlanRun::updateOnHost(const PlanInstruction &instruction) {
  auto op = ::cast<HostUpdateOp>(instruction.op);
  const BucketModel &bucket = plan.buckets[instruction.bucket];
  auto store = op.getGradient().getDefiningOp<StoreGradientOp>();
  if (failed(readWindow(store, store)))
    return failure();
  auto begin = static_cast<int64_t>(op.getBegin());
  auto end = static_cast<int64_t>(op.getEnd());
  auto found = updating.find(instruction.bucket);
  bool isFirst = found == updating.end();
  if (begin != (isFirst ? 0 : found->second.end))
    return emitError() << "expected the piece that begins at element "
                       << (isFirst ? 0 : found->second.end) << ", got "
                       << begin;
  int32_t shard = bucket.getState(StateRole::shard);
  const StateModel &shardModel = plan.states[shard];
  if (isFirst) {
    int32_t old = findContent(shard);
    if (!old)
      return emitError() << "expected the shard from the last update";
    Content content = contents[old];
    content.version = ++now->versions[instruction.bucket];
    updating[instruction.bucket] = {0, addContent(content)};
  }
  int64_t all = StateOp(shardModel.op).getTensorType().getNumElements();
  SmallVector<StateRole> roles = op.getSettings().getStates();
  if (BucketOp(bucket.op).getMaster())
    roles.push_back(StateRole::master);
  for (StateRole role : roles) {
    int32_t of = bucket.getState(role);
    if (of < 0 || getArena(plan.states[of]) != Arena::host)
      return emitError() << "expected a state '" << stringifyStateRole(role)
                         << "' in host memory";
    // A state is cut in proportion to the shard.
    int64_t own = StateOp(plan.states[of].op).getTensorType().getNumElements();
    int64_t each = std::max<int64_t>(1, all / std::max<int64_t>(1, own));
    Extent piece =
        getPieceExtent(plan.states[of], begin / each, (end - begin) / each);
    if (failed(access(Arena::host, piece, Mode::read)) ||
        failed(checkOld(of, piece)))
      return failure();
    int32_t version = now->versions[instruction.bucket];
    int32_t &id = storing[of];
    if (!id || contents[id].version != version) {
      Content content;
      content.kind = ContentKind::optimizer;
      content.bucket = instruction.bucket;
      content.version = version;
      content.begin = plan.states[of].extent.begin;
      content.end = plan.states[of].extent.end;
      id = addContent(content);
    }
    if (failed(access(Arena::host, piece, Mode::write, id)))
      return failure();
  }
  updating[instruction.bucket].end = end;
  Content content = contents[storedAs.lookup(store)];
  int32_t id = storedAs[op] = addContent(content);
  if (failed(access(Arena::host, getWindow(store), Mode::write, id)))
    return failure();
  if (end < all)
    return success();
  int32_t gradState = bucket.getState(StateRole::grad);
  int32_t grad = findContent(gradState);
  if (!grad)
    return emitError() << "expected the gradient of the bucket";
  // The gradient stays as it is, but nothing may use it again.
  Content taken = contents[grad];
  taken.takenBy = issued.size() - 1;
  getDevice().relabel(plan.states[gradState].extent, addContent(taken));
  return success();
}

/// Checks that pieces of a shard are loaded in order. The last one ends the
/// update of the bucket.
LogicalResult PlanRun::loadShard(const PlanInstruction &instruction) {
  auto op = ::cast<LoadShardOp>(instruction.op);
  auto update = op.getUpdated().getDefiningOp<HostUpdateOp>();
  auto store = update.getGradient().getDefiningOp<StoreGradientOp>();
  if (failed(readWindow(store, update)))
    return failure();
  auto begin = static_cast<int64_t>(op.getBegin());
  int64_t &end = loaded[instruction.bucket];
  if (begin != end)
    return emitError() << "expected the piece that begins at element " << end
                       << ", got " << begin;
  end = static_cast<int64_t>(update.getEnd());
  const StateModel &shard =
      plan.states[plan.buckets[instruction.bucket].getState(StateRole::shard)];
  if (failed(access(Arena::device, getPieceExtent(shard, begin, end - begin),
                    Mode::write, updating.lookup(instruction.bucket).content)))
    return failure();
  if (end == StateOp(shard.op).getTensorType().getNumElements())
    now->updates[instruction.bucket] = issued.size() - 1;
  return success();
}
