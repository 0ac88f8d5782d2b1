// SPDX-License-Identifier: Apache-2.0
#include "state/NodeSums.h"

#include "core/Pieces.h"

#include <algorithm>
#include <vector>

namespace fcdp {

namespace {

/// Returns the node that gets the values of node `saved` for node `owner`'s
/// part.
uint32_t receiverOf(uint32_t saved, uint32_t owner, uint32_t nodes) {
  uint32_t node = saved % nodes;
  return node == owner ? (node + 1) % nodes : node;
}

/// Returns the elements of `range` in node `owner`'s part of the slice.
ShardRange rangeOfOwner(const ShardRange &range, uint32_t owner,
                        int64_t partElements) {
  int64_t begin = std::max(range.inShard, owner * partElements);
  int64_t end = std::min(range.inShard + range.elements,
                         (owner + int64_t(1)) * partElements);
  return {range.inParameter + begin - range.inShard, begin,
          std::max<int64_t>(end - begin, 0)};
}

/// Adds node `node`'s values. Returns whether any is not 0.
bool addNode(CheckpointReader &reader, const CheckpointState &state,
             uint32_t node, const ShardRange &range, float scale,
             std::span<float> values) {
  bool hasAny = false;
  const int64_t most = pieceElements(1 << 20);
  std::vector<float> saved(size_t(std::min(range.elements, most)));
  forEachPiece(range.elements, most, [&](int64_t begin, int64_t count) {
    reader.read(state, node, range.inParameter + begin, count,
                reinterpret_cast<std::byte *>(saved.data()));
    float *to = values.data() + range.inShard + begin;
    for (int64_t i = 0; i < count; ++i)
      if (saved[i] != 0) {
        to[i] += saved[i] * scale;
        hasAny = true;
      }
  });
  return hasAny;
}

} // namespace

bool isNodeSum(plan::StateRole role) {
  return role == plan::StateRole::residual;
}

bool isNodeSum(std::string_view savedRole) {
  return savedRole == checkpointRole(plan::StateRole::residual);
}

bool addNodeSums(CheckpointReader &reader, const CheckpointState &state,
                 const plan::ParameterT &parameter, const NodeSumSlice &slice) {
  const Mesh &mesh = slice.plan.mesh;
  const CheckpointIndex &index = reader.index();
  const auto partElements = int64_t(slice.values.size() / mesh.nodes);
  const ShardRange whole =
      sliceRangeOf(slice.plan, parameter, slice.place.local);
  const float scale = float(mesh.size()) / float(index.worldSize);
  bool isMoved = index.nodes != mesh.nodes || index.worldSize != mesh.size();
  for (uint32_t owner = 0; owner < mesh.nodes; ++owner) {
    ShardRange range = rangeOfOwner(whole, owner, partElements);
    if (range.elements == 0 || owner == slice.place.node)
      continue;
    for (uint32_t saved = 0; saved < index.nodes; ++saved)
      if (receiverOf(saved, owner, mesh.nodes) == slice.place.node) {
        bool hasAny = addNode(reader, state, saved, range, scale, slice.values);
        isMoved |= hasAny && saved != slice.place.node;
      }
  }
  return isMoved;
}

std::vector<std::string> describe(const NodeSumChanges &changes) {
  std::vector<std::string> lines;
  if (changes.started)
    lines.push_back(
        "the checkpoint has no residuals of reductions in 8 or 4 bits of " +
        std::to_string(changes.started) + " parameters: they start as zeros");
  if (changes.dropped)
    lines.push_back("the step has no reductions in 8 or 4 bits of " +
                    std::to_string(changes.dropped) +
                    " parameters: their residuals in the checkpoint are lost");
  if (changes.areMoved)
    lines.push_back(
        "the checkpoint is of other nodes or another layout: the residuals of "
        "reductions in 8 or 4 bits move to the nodes of this job, with the "
        "same sum");
  return lines;
}

} // namespace fcdp
