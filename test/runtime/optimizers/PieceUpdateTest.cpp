// SPDX-License-Identifier: Apache-2.0
//
// Pieces of a part, and their arithmetic in f32.
#include "optimizers/PieceUpdate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

constexpr int64_t kNumElements = 1000;
constexpr int64_t kAtOnce = 256;

/// Moves two states with products that are rounded before they are added, so
/// that an element's bits do not depend on its place in a vector.
void update(const UpdatePart &part) {
  at::Tensor first = part.states[0], second = part.states[1];
  at::Tensor parameter = part.parameter;
  first.mul_(0.9).add_(part.grad.mul(0.1));
  second.mul_(0.5).add_(part.grad.square().mul(0.5));
  parameter.sub_(first.div(second.sqrt().add(1e-3)).mul(0.3));
}

UpdatePart makePart(at::ScalarType type) {
  at::manual_seed(3);
  auto random = [&] { return at::randn({kNumElements}).to(type); };
  UpdatePart part{{0, kNumElements}, random(), random(), {}, {}, {}};
  part.states = {random(), random().square()};
  return part;
}

TEST(PieceUpdateTest, RoundsEachOfSeveralStatesOnce) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    UpdatePart part = makePart(type), exact = part;
    exact.parameter = part.parameter.to(at::kFloat);
    exact.grad = part.grad.to(at::kFloat);
    for (at::Tensor &state : exact.states)
      state = state.to(at::kFloat);
    update(exact);

    SmallPieces small(kAtOnce);
    PieceMemory memory(at::kCPU);
    PieceUpdate(part, /*isWidened=*/true, 0, memory).run(part, update);
    EXPECT_TRUE(at::equal(part.parameter, exact.parameter.to(type)));
    for (size_t i = 0; i < part.states.size(); ++i)
      EXPECT_TRUE(at::equal(part.states[i], exact.states[i].to(type))) << i;
  }
}

TEST(PieceUpdateTest, WidensOnlyStatesOfSixteenBits) {
  UpdatePart part = makePart(at::kBFloat16);
  part.states[0] = at::full({kNumElements}, 7, at::kByte);
  SmallPieces small(kAtOnce);
  PieceMemory memory(at::kCPU);
  PieceUpdate(part, /*isWidened=*/true, 1, memory)
      .run(part, [](const UpdatePart &piece) {
        EXPECT_EQ(piece.states[0].scalar_type(), at::kByte);
        EXPECT_EQ(piece.states[1].scalar_type(), at::kFloat);
        EXPECT_EQ(piece.memories.at(0).scalar_type(), at::kFloat);
        EXPECT_NE(piece.memories[0].data_ptr(), piece.states[1].data_ptr());
        piece.states[0].fill_(9);
      });
  EXPECT_TRUE(
      at::equal(part.states[0], at::full({kNumElements}, 9, at::kByte)));
}

TEST(PieceUpdateTest, CutsStatesOfBlocks) {
  constexpr int64_t block = 4;
  UpdatePart part = makePart(at::kFloat);
  part.states = {at::arange(kNumElements), at::arange(kNumElements / block)};
  SmallPieces small(kAtOnce);
  PieceMemory memory(at::kCPU);
  int64_t next = 0;
  PieceUpdate(part, /*isWidened=*/false, 0, memory)
      .run(part, [&](const UpdatePart &piece) {
        EXPECT_EQ(piece.segment.begin, next);
        EXPECT_EQ(piece.parameter.data_ptr(),
                  part.parameter.mutable_data_ptr<float>() + next);
        EXPECT_EQ(piece.states[0][0].item<int64_t>(), next);
        EXPECT_EQ(piece.states[1][0].item<int64_t>(), next / block);
        EXPECT_EQ(piece.states[1].numel(), piece.segment.elements / block);
        next += piece.segment.elements;
      });
  EXPECT_EQ(next, kNumElements);
}

} // namespace
