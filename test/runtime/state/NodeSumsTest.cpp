// SPDX-License-Identifier: Apache-2.0
//
// Loads the residuals of two nodes' messages, on two nodes and on others.
#include "state/NodeSums.h"

#include "checkpoint/CheckpointFolders.h"
#include "core/Pieces.h"
#include "plan/FakeStep.h"

#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

constexpr uint32_t kSavedNodes = 2;
constexpr int64_t kResiduals = 6;

/// Returns a node's residual of an element of the parameter.
float left(uint32_t node, int64_t element) {
  return float(100 * (node + 1) + element);
}

class NodeSumsTest : public ::testing::Test {
protected:
  NodeSumsTest() { save(); }

  void save();
  /// Returns the slice of a rank of a mesh, of which the bucket has 8 elements.
  std::vector<float> load(Mesh mesh, Place place) {
    CheckpointReader reader(checkpointPath(run, 1));
    StepPlan plan = linearStep(mesh.nodes, mesh.locals, 1).load();
    std::vector<float> slice(8 / mesh.locals);
    isMoved = addNodeSums(reader, reader.index().states.at(0),
                          *plan.parameters.at(0), {plan, place, slice});
    return slice;
  }

  TemporaryFolder folder;
  const std::string run = folder.file("run");
  bool isMoved = false;
};

void NodeSumsTest::save() {
  CheckpointIndex index;
  index.step = 1;
  index.worldSize = index.nodes = kSavedNodes;
  index.planHash = "0123";
  CheckpointState state{{"w"}, "residual", DType::F32, {2, 3}};
  makeRunFolder(run);
  beginCheckpoint(run, index.step);
  for (uint32_t node = 0; node < kSavedNodes; ++node) {
    CheckpointPiece piece{node, 0, kResiduals};
    piece.node = node;
    state.pieces.push_back(piece);
    std::vector<float> values;
    for (int64_t i = 0; i < kResiduals; ++i)
      values.push_back(left(node, i));
    std::vector<SafetensorsWriter::Entry> entries = {
        {{pieceName(state, piece)}, {kResiduals}, DType::F32}};
    CheckpointFile file;
    file.name = rankFileName(node, kSavedNodes);
    file.bytes = rankFileBytes(entries);
    file.digest = writeRankFile(partialPath(run, index.step) + "/" + file.name,
                                entries, std::as_bytes(std::span(values)));
    index.files.push_back(file);
  }
  index.states = {state};
  commitCheckpoint(run, index);
}

using Floats = std::vector<float>;

TEST_F(NodeSumsTest, ANodeGetsWhatItsMessagesToOthersLeftOut) {
  // Elements of more than one piece, and of one.
  for (int64_t piece : {1, 3, 100}) {
    SmallPieces small(piece);
    // Node 0 sends to node 1, which has elements 4 and 5 and two of padding.
    // Node 0 also gets node 1's residual of that part.
    Floats expected(8);
    for (int64_t i : {4, 5})
      expected[i] = left(0, i) + left(1, i);
    EXPECT_EQ(load({2, 1}, {0, 0}), expected) << piece;
    expected.assign(8, 0);
    for (int64_t i : {0, 1, 2, 3})
      expected[i] = left(0, i) + left(1, i);
    EXPECT_EQ(load({2, 1}, {1, 0}), expected) << piece;
  }
}

TEST_F(NodeSumsTest, OtherMeshesScaleIt) {
  SmallPieces small(1);
  // Twice as many ranks: local rank 0 of node 1 has elements 0 to 3, of which
  // node 0 has 0 and 1.
  Floats expected = {2 * (left(0, 0) + left(1, 0)),
                     2 * (left(0, 1) + left(1, 1)), 0, 0};
  EXPECT_EQ(load({2, 2}, {1, 0}), expected);
  EXPECT_TRUE(isMoved);
  // Local rank 1 has elements 4 and 5, which node 0 has.
  expected = {2 * (left(0, 4) + left(1, 4)), 2 * (left(0, 5) + left(1, 5)), 0,
              0};
  EXPECT_EQ(load({2, 2}, {1, 1}), expected);
  // On one node there are no messages.
  EXPECT_EQ(load({1, 1}, {0, 0}), Floats(8));
}

} // namespace
