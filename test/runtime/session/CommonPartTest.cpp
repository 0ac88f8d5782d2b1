// SPDX-License-Identifier: Apache-2.0
//
// Two nodes of one rank each that train by themselves.
#include "SessionFixture.h"

#include "core/Pieces.h"

using namespace fcdp;
using namespace fcdp::test;

namespace {

constexpr size_t kShardElements = 8;

/// A step whose gradient is its input, and which has outer steps.
FakeStep nodeStep() {
  FakeStep fake;
  Json &plan = fake.plan;
  plan["nodes"] = 2;
  plan["outer"] = {{"every", 2},
                   {"lr", 0.5},
                   {"momentum", 0.0},
                   {"nesterov", false},
                   {"fragments", 1}};
  fake.setFunctions({"init", "only_microbatch", "update", "outer_update"});
  plan["parameters"] = Json::parse(R"([{"names": ["w"], "shape": [2, 4],
      "dtype": "f32", "trainable": true, "bucket": 0, "offset_elements": 0}])");
  plan["buckets"].push_back({{"name", "b"},
                             {"unit", "u"},
                             {"trainable", true},
                             {"elements", kShardElements},
                             {"shard_elements", kShardElements},
                             {"storage", "f32"},
                             {"wire", "f32"},
                             {"reduce", "f32"},
                             {"sharding", "node"},
                             {"states",
                              {state("shard", "f32", device(0, 32)),
                               state("grad", "f32", device(64, 32)),
                               state("outer", "f32", host(0, 32))}}});
  plan["inputs"] =
      Json::parse(R"([{"name": "x", "shape": [2, 4], "dtype": "f32"}])");
  plan["buffers"].push_back({{"name", "one"},
                             {"shape", Json::array()},
                             {"dtype", "f32"},
                             {"persistent", false},
                             {"mutable", false},
                             {"constant_offset", 0}});
  fake.constants = {0, 0, 0x80, 0x3f}; // 1.0f
  size_t x = fake.slot({{"kind", "input"}, {"index", 0}});
  size_t one = fake.slot({{"kind", "buffer"}, {"index", 0}});
  size_t grad = fake.slot({{"kind", "planned"},
                           {"buf", device(64, 32)},
                           {"shape", {2, 4}},
                           {"dtype", "f32"}});
  fake.add("only_microbatch",
           {{"kind", "loss"}, {"slot", one}, {"free", Json::array()}});
  fake.add("only_microbatch",
           {{"kind", "pack"},
            {"members", Json::array({Json::array({x, grad})})},
            {"free", Json::array()}});
  fake.add("update",
           {{"kind", "shard_update"}, {"bucket", 0}, {"grad_scale", 1.0}});
  return fake;
}

class CommonPartTest : public TwoRanksTest {
protected:
  SessionOptions node(uint32_t rank) const {
    SessionOptions options = oneOfTwo(rank, port);
    options.launch.mesh = {2, 1};
    options.launch.place = {rank, 0};
    return options;
  }
  static float inputOf(uint32_t rank, size_t element) {
    return float((element + 1) * (rank == 0 ? 1 : 3));
  }
  /// Opens a rank's session, and trains for a step on what it has.
  std::unique_ptr<Session> train(uint32_t rank) {
    auto session = Session::open(object, node(rank));
    auto shaped = [](const std::vector<float> &values) {
      return TensorView{reinterpret_cast<const std::byte *>(values.data()),
                        DType::F32,
                        {2, 4}};
    };
    session->setState("w", plan::StateRole::shard,
                      shaped(std::vector<float>(kShardElements, 10)));
    std::vector<float> own(kShardElements);
    for (size_t i = 0; i < kShardElements; ++i)
      own[i] = inputOf(rank, i);
    session->run(std::vector<TensorView>{shaped(own)});
    session->read();
    return session;
  }
};

TEST_F(CommonPartTest, IsTakenOfEveryPiece) {
  // Three pieces, of which the last is shorter.
  SmallPieces small(3);
  object = loadStep(nodeStep().build(folder));
  child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto session = train(1);
    session->getState("w", plan::StateRole::shard, {});
    session->close();
    _exit(0);
  }
  auto session = train(0);
  std::vector<float> mean(kShardElements);
  session->getState("w", plan::StateRole::shard,
                    std::as_writable_bytes(std::span(mean)));
  for (size_t i = 0; i < kShardElements; ++i)
    EXPECT_EQ(mean[i], 10 - 0.5F * (inputOf(0, i) + inputOf(1, i)) / 2) << i;
  session->close();
  waitForOther(0);
}

} // namespace
