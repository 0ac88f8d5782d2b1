// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/Shards.h"
#include "plan/Archive.h"
#include "plan/FakeStep.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// A bucket of 16 elements on 2 x 2 ranks: `a` [2, 3] at 0 and `b` [5] at 8,
/// and a persistent and a passing buffer.
class ShardsTest : public ::testing::Test {
protected:
  ShardsTest() {
    plan.mesh = {2, 2};
    plan::BucketT &bucket =
        *plan.buckets.emplace_back(std::make_unique<plan::BucketT>());
    bucket.name = "all";
    bucket.elements = 16;
    bucket.shardElements = 4;
    bucket.storage = plan::DType::f32;
    // Not in the order of their places.
    addParameter({"b", "b.again"}, {5}, 8);
    addParameter({"a"}, {2, 3}, 0);
    addBuffer("kept", {2}, std::nullopt);
    addBuffer("constant", {1}, 0);
    archive.weights = {{"a", "weight_0", 7, {2, 3}, {1, 2}}, // transposed
                       {"b.again", "weight_1", 7, {5}, {1}},
                       {"kept", "weight_2", 7, {2}, {1}}};
    archive.payloads = {{"weight_0", floatBytes({0, 3, 1, 4, 2, 5})},
                        {"weight_1", floatBytes({10, 11, 12, 13, 14})},
                        {"weight_2", floatBytes({20, 21})}};
    archive.write(folder.file("w.pt2"));
  }

  void addParameter(std::vector<std::string> names, Shape shape,
                    uint64_t offset) {
    plan::ParameterT &parameter =
        *plan.parameters.emplace_back(std::make_unique<plan::ParameterT>());
    parameter.names = std::move(names);
    parameter.shape = std::move(shape);
    parameter.dtype = plan::DType::f32;
    parameter.trainable = true;
    parameter.offsetElements = offset;
  }
  /// A buffer with a constant, or a persistent one.
  void addBuffer(const std::string &name, Shape shape,
                 std::optional<uint64_t> constant) {
    plan::BufferT &buffer =
        *plan.buffers.emplace_back(std::make_unique<plan::BufferT>());
    buffer.name = name;
    buffer.shape = std::move(shape);
    buffer.dtype = plan::DType::f32;
    buffer.persistent = buffer.mutable_ = !constant;
    buffer.constantOffset = constant;
  }

  std::vector<float> shardOfRank(uint32_t rank, const std::string &file) {
    std::vector<float> shard(plan.buckets[0]->shardElements, -1);
    auto source = openWeights(file);
    loadShards(
        plan, placeOf(plan.mesh, rank), *source,
        [&](size_t) { return std::as_writable_bytes(std::span(shard)); },
        [](size_t) -> std::span<std::byte> {
          throw std::logic_error("the bucket has no master");
        });
    return shard;
  }

  /// Cuts the bucket over other ranks.
  void cut(plan::Sharding sharding) {
    plan::BucketT &bucket = *plan.buckets[0];
    bucket.sharding = sharding;
    bucket.shardElements = 16 / countParts(sharding, plan.mesh);
  }

  TemporaryFolder folder;
  Archive archive;
  StepPlan plan;
};

using Floats = std::vector<float>;

TEST_F(ShardsTest, RankOwnsShardOfItsLocalAndNode) {
  // Rank (n, l) owns shard 2 l + n; world rank is 2 n + l.
  std::string file = folder.file("w.pt2");
  EXPECT_EQ(shardOfRank(0, file), (Floats{0, 1, 2, 3}));
  EXPECT_EQ(shardOfRank(2, file), (Floats{4, 5, 0, 0}));
  EXPECT_EQ(shardOfRank(1, file), (Floats{10, 11, 12, 13}));
  EXPECT_EQ(shardOfRank(3, file), (Floats{14, 0, 0, 0}));
}

TEST_F(ShardsTest, NodesOwnTheSameSlices) {
  cut(plan::Sharding::node);
  std::string file = folder.file("w.pt2");
  for (uint32_t node : {0, 1}) {
    EXPECT_EQ(shardOfRank(2 * node, file), (Floats{0, 1, 2, 3, 4, 5, 0, 0}));
    EXPECT_EQ(shardOfRank(2 * node + 1, file),
              (Floats{10, 11, 12, 13, 14, 0, 0, 0}));
  }
  EXPECT_EQ(ownersOf(*plan.buckets[0], plan.mesh),
            (std::vector<uint32_t>{0, 1}));
}

TEST_F(ShardsTest, RanksOwnTheWhole) {
  cut(plan::Sharding::none);
  Floats whole = {0, 1, 2, 3, 4, 5, 0, 0, 10, 11, 12, 13, 14, 0, 0, 0};
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(shardOfRank(rank, folder.file("w.pt2")), whole);
  EXPECT_EQ(ownersOf(*plan.buckets[0], plan.mesh), (std::vector<uint32_t>{0}));
}

// `a` is in f32 in the file, and `b` in bf16.
TEST_F(ShardsTest, MastersKeepWhatIsStoredInFloat32) {
  constexpr uint16_t kOne = 0x3f80, kThree = 0x4040;
  plan.mesh = {1, 1};
  cut(plan::Sharding::world);
  plan::BucketT &bucket = *plan.buckets[0];
  bucket.storage = plan::DType::bf16;
  bucket.states.emplace_back(plan::StateRole::master, plan::DType::f32,
                             plan::Buf(plan::Arena::device, 0, 64, 0, 0));
  for (auto &parameter : plan.parameters)
    parameter->dtype = plan::DType::bf16;
  SafetensorsWriter writer(
      folder.file("mixed.safetensors"),
      {{{"a"}, {2, 3}, DType::F32}, {{"b"}, {5}, DType::BF16}});
  // Halfway between two bf16, which rounds to the even one, and just above.
  Floats a = {1.00390625F, 0x1.010002p0F, -0.0F, 3, 0, 0};
  std::vector<uint16_t> b(5, kThree);
  writer.write(std::as_bytes(std::span(a)));
  writer.write(std::as_bytes(std::span(b)));
  writer.finish();

  std::vector<uint16_t> shard(16, 1);
  Floats master(16, 1);
  auto source = openWeights(folder.file("mixed.safetensors"));
  loadShards(
      plan, {0, 0}, *source,
      [&](size_t) { return std::as_writable_bytes(std::span(shard)); },
      [&](size_t) { return std::as_writable_bytes(std::span(master)); });
  EXPECT_EQ(master, (Floats{1.00390625F, 0x1.010002p0F, 0, 3, 0, 0, 0, 0, 3, 3,
                            3, 3, 3, 0, 0, 0}));
  EXPECT_TRUE(std::signbit(master[2]));
  EXPECT_EQ(shard, (std::vector<uint16_t>{kOne, kOne + 1, 0x8000, kThree, 0, 0,
                                          0, 0, kThree, kThree, kThree, kThree,
                                          kThree, 0, 0, 0}));
}

TEST_F(ShardsTest, BuffersComeByName) {
  Floats kept(2), constant = {5};
  auto source = openWeights(folder.file("w.pt2"));
  loadBuffers(plan, *source, [&](size_t b) {
    return std::as_writable_bytes(std::span(b == 0 ? kept : constant));
  });
  EXPECT_EQ(kept, (Floats{20, 21}));
  EXPECT_EQ(constant, Floats{5});
}

TEST_F(ShardsTest, MissingParameterIsNamed) {
  plan.parameters[1]->names = {"c"};
  try {
    shardOfRank(0, folder.file("w.pt2"));
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("'c': expected a tensor"),
              std::string::npos);
  }
}

class SavedShardsTest : public ShardsTest,
                        public ::testing::WithParamInterface<plan::Sharding> {};

TEST_P(SavedShardsTest, ParametersComeBack) {
  cut(GetParam());
  Floats kept = {30, 31};
  std::string out = folder.file("out.safetensors");
  auto gather = [&](size_t) {
    std::vector<std::byte> all;
    for (uint32_t rank : ownersOf(*plan.buckets[0], plan.mesh)) {
      Floats shard = shardOfRank(rank, folder.file("w.pt2"));
      auto bytes = std::as_bytes(std::span(shard));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  auto buffer = [&](size_t) { return std::as_writable_bytes(std::span(kept)); };
  saveParameters(plan, out, /*isWriter=*/false, gather, buffer);
  EXPECT_FALSE(std::filesystem::exists(out));
  saveParameters(plan, out, /*isWriter=*/true, gather, buffer);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(shardOfRank(rank, out), shardOfRank(rank, folder.file("w.pt2")));
  auto source = openWeights(out);
  EXPECT_TRUE(source->find("b"));
  EXPECT_TRUE(source->find("b.again"));
  EXPECT_TRUE(source->find("kept"));
  EXPECT_FALSE(source->find("constant"));
}

INSTANTIATE_TEST_SUITE_P(Shardings, SavedShardsTest,
                         ::testing::Values(plan::Sharding::world,
                                           plan::Sharding::node,
                                           plan::Sharding::none));

} // namespace
