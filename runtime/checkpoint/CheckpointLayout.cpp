// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/CheckpointLayout.h"
#include "checkpoint/PackedWeights.h"

#include "checkpoint/RankFile.h"
#include "checkpoint/Shards.h"

#include <algorithm>

namespace fcdp {

bool isOfNodes(plan::StateRole role, const plan::BucketT &bucket) {
  return rulesOf(role).scope == StateScope::slice ||
         (isTrainedByNodes(bucket) && !isCommonToNodes(role));
}

/// Returns the offset in bytes at which a range begins in a region.
static uint64_t placeIn(const plan::State &region, const ShardRange &range) {
  return uint64_t(range.inShard) * byteSize(toDType(region.dtype()));
}

CheckpointLayout::CheckpointLayout(const StepPlan &plan, uint64_t randomBytes)
    : ofRank(plan.mesh.size()), bytesOfRank(plan.mesh.size()) {
  index.worldSize = plan.mesh.size();
  index.nodes = plan.mesh.nodes;
  index.planHash = plan.hash;
  auto members = membersOf(plan);
  for (size_t bucket = 0; bucket < members.size(); ++bucket)
    addBucket(plan, bucket, members[bucket]);
  addBuffers(plan);
  CheckpointState random{
      {kRandomName}, kRandomRole, DType::U8, {int64_t(randomBytes)}};
  addOwn(addState(std::move(random)), SavedPiece());
  for (uint32_t rank = 0; rank < index.worldSize; ++rank)
    index.files.push_back(
        {rankFileName(rank, index.worldSize), rankFileBytes(entriesOf(rank))});
}

size_t CheckpointLayout::addState(CheckpointState state,
                                  std::optional<size_t> bucket) {
  index.states.push_back(std::move(state));
  countedBucket.push_back(bucket);
  return index.states.size() - 1;
}

void CheckpointLayout::addPiece(size_t state, uint32_t rank,
                                CheckpointPiece piece, SavedPiece saved) {
  CheckpointState &target = index.states[state];
  piece.file = rank;
  saved.state = state;
  saved.piece = target.pieces.size();
  saved.bytes = uint64_t(piece.length) * byteSize(target.dtype);
  bytesOfRank[rank] += saved.bytes;
  target.pieces.push_back(piece);
  ofRank[rank].push_back(saved);
}

uint32_t
CheckpointLayout::chooseSaver(const std::vector<uint32_t> &replicas) const {
  return *std::min_element(replicas.begin(), replicas.end(),
                           [this](uint32_t a, uint32_t b) {
                             return bytesOfRank[a] < bytesOfRank[b];
                           });
}

void CheckpointLayout::addOwn(size_t state, const SavedPiece &saved) {
  int64_t elements = numElements(index.states[state].shape);
  if (elements == 0)
    return;
  for (uint32_t rank = 0; rank < index.worldSize; ++rank)
    addPiece(state, rank, {rank, 0, elements, rank}, saved);
}

void CheckpointLayout::addBucket(
    const StepPlan &plan, size_t number,
    const std::vector<const plan::ParameterT *> &members) {
  const plan::BucketT &bucket = *plan.buckets[number];
  for (const plan::State &region : bucket.states) {
    const char *role = checkpointRole(region.role());
    if (!role)
      continue;
    bool isValue = region.role() == plan::StateRole::shard;
    DType dtype = toDType(region.dtype());
    for (const plan::ParameterT *parameter : members) {
      std::optional<Shape> shape =
          stateShape(region.role(), parameter->shape, bucket.maxSide);
      if (!shape)
        continue;
      CheckpointState saved{parameter->names, role, dtype, *shape};
      if (isValue) {
        saved.trainable = parameter->trainable;
        saved.packed = describePacked(*parameter);
      }
      size_t state = addState(std::move(saved),
                              isValue ? std::optional(number) : std::nullopt);
      if (isOfNodes(region.role(), bucket))
        addSlices(plan, state, *parameter, region);
      else
        addParts(plan, state, *parameter, region);
    }
  }
}

void CheckpointLayout::addParts(const StepPlan &plan, size_t state,
                                const plan::ParameterT &parameter,
                                const plan::State &region) {
  std::vector<std::vector<uint32_t>> replicas =
      replicasOf(*plan.buckets[parameter.bucket], plan.mesh);
  for (uint32_t part = 0; part < replicas.size(); ++part) {
    ShardRange range = stateRangeOf(plan, parameter, part, region.role());
    if (range.elements == 0)
      continue;
    uint32_t rank = chooseSaver(replicas[part]);
    addPiece(state, rank, {rank, range.inParameter, range.elements},
             {0, 0, region.buf(), placeIn(region, range)});
  }
}

void CheckpointLayout::addSlices(const StepPlan &plan, size_t state,
                                 const plan::ParameterT &parameter,
                                 const plan::State &region) {
  for (uint32_t rank = 0; rank < plan.mesh.size(); ++rank) {
    Place place = placeOf(plan.mesh, rank);
    // If each node has the state for itself, the part that a rank owns is its
    // node slice.
    ShardRange range =
        rulesOf(region.role()).scope == StateScope::slice
            ? sliceRangeOf(plan, parameter, place.local)
            : stateRangeOf(plan, parameter, place.local, region.role());
    if (range.elements != 0)
      addPiece(
          state, rank,
          {rank, range.inParameter, range.elements, std::nullopt, place.node},
          {0, 0, region.buf(), placeIn(region, range)});
  }
}

void CheckpointLayout::addBuffers(const StepPlan &plan) {
  for (size_t i : plan.stateBuffers()) {
    const plan::BufferT &buffer = *plan.buffers[i];
    CheckpointState saved{
        {buffer.name}, kBufferRole, toDType(buffer.dtype), buffer.shape};
    saved.persistent = buffer.persistent;
    int64_t elements = numElements(buffer.shape);
    size_t state = addState(std::move(saved));
    SavedPiece piece;
    piece.buffer = i;
    if (buffer.mutable_)
      addOwn(state, piece);
    else if (elements != 0)
      addPiece(state, 0, {0, 0, elements}, piece);
  }
}

std::vector<SafetensorsWriter::Entry>
CheckpointLayout::entriesOf(uint32_t rank) const {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const SavedPiece &saved : ofRank[rank]) {
    const CheckpointState &state = index.states[saved.state];
    const CheckpointPiece &piece = state.pieces[saved.piece];
    entries.push_back({{pieceName(state, piece)}, {piece.length}, state.dtype});
  }
  return entries;
}

} // namespace fcdp
