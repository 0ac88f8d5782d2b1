// SPDX-License-Identifier: Apache-2.0
//
// Every error of a session is a value that leaves the process alive.
#include "SessionFixture.h"

#include "weights/WeightSource.h"

#include <filesystem>
#include <fstream>
#include <functional>

using namespace fcdp;
using namespace fcdp::test;

void SessionTest::expectAllRefused(Session &session) {
  std::vector<float> read(kElements);
  auto bytes = std::as_writable_bytes(std::span(read));
  const std::function<void()> calls[] = {
      [&] { session.loadWeights({folder.file("w")}); },
      [&] { session.saveWeights({.path = folder.file("w")}); },
      [&] {
        session.setState("w", plan::StateRole::shard, view(w, DType::F32));
      },
      [&] { session.getState("w", plan::StateRole::shard, bytes); },
      [&] { session.getUpdateCount("w"); },
      [&] { session.setUpdateCount("w", 0); },
      [&] { session.loadCheckpoint(folder.file("run")); },
      [&] { session.openCheckpoints({folder.file("run")}); },
      [&] { session.saveCheckpoint(); },
      [&] { session.finishCheckpoint(); },
      [&] { session.setLearningRate(0.5); },
      [&] { session.setSchedule(Schedule()); },
      [&] { session.takeSavedCheckpoint(); },
      [&] { session.begin(); },
      [&] { session.run(inputs()); },
      [&] { session.run([](size_t, int64_t, std::span<std::byte>) {}); },
      [&] { session.read(); },
      [&] { session.requireFinite({}); },
      [&] { session.combine(RankStats()); },
      [&] { session.guard([] {}); },
      [&] { session.close(); }};
  for (const auto &call : calls)
    expectError(SessionErrorCode::Misuse, call);
}

TEST_F(SessionTest, RefusedCallsChangeNothing) {
  auto session = openWithValue();
  expectError(SessionErrorCode::Misuse, [&] { session->read(); });
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("v", plan::StateRole::shard, view(w, DType::F32));
  });
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("w", plan::StateRole::shard, view(w, DType::F16));
  });
  // SGD without momentum has no state.
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("w", plan::StateRole::exp_avg, view(w, DType::F32));
  });
  auto wrong = [&](auto change) {
    std::vector<TensorView> given = inputs();
    change(given);
    return expectError(SessionErrorCode::InputMismatch,
                       [&] { session->run(given); });
  };
  EXPECT_NE(wrong([](auto &given) {
              given.pop_back();
            }).find("expected 2 tensors, 2 for each of 1 micro-batches"),
            std::string::npos);
  EXPECT_NE(wrong([](auto &given) {
              given[0].shape = {6};
            }).find("'x' of micro-batch 0: expected f32[2, 3], got f32[6]"),
            std::string::npos);
  wrong([](auto &given) { given[1].dtype = DType::I32; });
  wrong([](auto &given) { given[1].data = nullptr; });
  std::vector<int64_t> tooLarge = {0, 0, 0, 0, 10, 0};
  EXPECT_NE(wrong([&](auto &given) {
              given[1] = view(tooLarge, DType::I64);
            }).find("value 10 at position 4: expected [0, 10) or -100"),
            std::string::npos);
  session->run(inputs());
  expectError(SessionErrorCode::Misuse, [&] { session->run(inputs()); });
  double loss = nextLoss();
  EXPECT_NEAR(session->read().losses[0], loss, 1e-5 * loss);
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("w", plan::StateRole::shard, view(w, DType::F32));
  });
  expectError(SessionErrorCode::Misuse,
              [&] { session->setUpdateCount("w", 1); });
  session->close();
  expectAllRefused(*session);
}

TEST_F(SessionTest, BadStatesAreRefused) {
  auto session = openWithValue();
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("w", plan::StateRole::shard,
                      {nullptr, DType::F32, {2, 3}});
  });
  expectError(SessionErrorCode::Misuse, [&] {
    session->getState("w", plan::StateRole::shard,
                      {static_cast<std::byte *>(nullptr), 24});
  });
  std::byte byte;
  expectError(SessionErrorCode::Misuse, [&] {
    session->getState("w", plan::StateRole::shard, {&byte, 1});
  });
  expectError(SessionErrorCode::Misuse, [&] { session->getUpdateCount("v"); });
  expectError(SessionErrorCode::Misuse,
              [&] { session->setUpdateCount("w", -1); });
  session->setUpdateCount("w", 1);
  EXPECT_EQ(session->getUpdateCount("w"), 1);
  // As many elements of another shape.
  EXPECT_NE(expectError(SessionErrorCode::Misuse,
                        [&] {
                          TensorView turned = view(w, DType::F32);
                          turned.shape = {3, 2};
                          session->setRows("w", plan::StateRole::shard, turned);
                        })
                .find("'w': expected f32[2, 3] on rank 0, got f32[3, 2]"),
            std::string::npos);
  session->close();
}

TEST_F(SessionTest, AProblemOfTheProgramEndsTheSession) {
  auto session = openWithValue();
  session->agree("", "values");
  EXPECT_EQ(expectError(SessionErrorCode::Misuse,
                        [&] { session->agree("a state is missing", ""); }),
            "a state is missing");
  expectAllRefused(*session);
}

TEST_F(SessionTest, AFailedSessionRefusesAllCalls) {
  auto session = openWithValue();
  expectError(SessionErrorCode::Failed, [&] {
    session->guard([] { throw std::runtime_error("out of data"); });
  });
  expectAllRefused(*session);
}

TEST_F(SessionTest, BadObject) {
  expectError(SessionErrorCode::BadObject,
              [&] { loadStep(folder.file("none.so")); });
  std::ofstream(folder.file("text.so")) << "text";
  expectError(SessionErrorCode::BadObject,
              [&] { loadStep(folder.file("text.so")); });
}

TEST_F(SessionTest, BadLaunch) {
  SessionOptions options = only();
  options.launch.mesh = {2, 2};
  expectError(SessionErrorCode::BadLaunch,
              [&] { Session::open(step(), options); });
}

TEST_F(SessionTest, BadWeightsEndTheSessionOnly) {
  auto session = Session::open(step(), only());
  expectError(SessionErrorCode::BadWeights,
              [&] { session->loadWeights({folder.file("none")}); });
  expectError(SessionErrorCode::Misuse, [&] { session->run(inputs()); });
  session.reset();
  openWithValue()->close();
}

TEST_F(SessionTest, TheCallersCheckFails) {
  SessionOptions options = only();
  options.check = [] { throw std::runtime_error("no data today"); };
  EXPECT_EQ(expectError(SessionErrorCode::InputMismatch,
                        [&] { Session::open(step(), options); }),
            "no data today");
}

TEST_F(SessionTest, TooLittleMemory) {
  FakeStep large = linearStep(1, 1, 1);
  large.plan["device_bytes"] = uint64_t(1) << 50;
  auto object = loadStep(large.build(folder));
  expectError(SessionErrorCode::OutOfMemory,
              [&] { Session::open(object, only()); });
}

TEST_F(SessionTest, AnOperatorRunsOutOfMemory) {
  FakeStep large = linearStep(1, 1, 1);
  large.add(
      "only_microbatch",
      {{"kind", "aten_call"},
       {"callee", "aten::empty"},
       {"overload", "memory_format"},
       {"args",
        Json::array({Json::array({"size", Json{{"is", {int64_t(1) << 46}}}})})},
       {"results", Json::array({large.transient()})},
       {"loc", "model.py:9"},
       {"module_path", "linear"}});
  auto session = Session::open(loadStep(large.build(folder)), only());
  session->setState("w", plan::StateRole::shard, view(w, DType::F32));
  std::string text = expectError(SessionErrorCode::OutOfMemory,
                                 [&] { session->run(inputs()); });
  EXPECT_NE(
      text.find("aten::empty.memory_format (module 'linear', model.py:9)"),
      std::string::npos)
      << text;
}

TEST_F(SessionTest, NoDevice) {
  if (std::filesystem::exists("/dev/nvidia0"))
    GTEST_SKIP() << "this machine has a GPU";
  FakeStep gpu = linearStep(1, 1, 1);
  gpu.plan["target"] = "cuda";
  auto object = loadStep(gpu.build(folder));
  expectError(SessionErrorCode::NoDevice,
              [&] { Session::open(object, only()); });
}

TEST_F(SessionTest, UnwritableFile) {
  auto session = openWithValue();
  expectError(SessionErrorCode::FileFailed,
              [&] { session->saveWeights({.path = "/no/such/file"}); });
}

TEST_F(SessionTest, AFailingSourceEndsTheSession) {
  auto session = openWithValue();
  auto fill = [](size_t, int64_t, std::span<std::byte>) {
    throw std::runtime_error("the disk is gone");
  };
  EXPECT_EQ(expectError(SessionErrorCode::Failed, [&] { session->run(fill); }),
            "the disk is gone");
}

TEST_F(SessionTest, MissingRanks) {
  SessionOptions options = oneOfTwo(0, freePort());
  options.timeoutSeconds = 1;
  std::string text = expectError(SessionErrorCode::RendezvousFailed,
                                 [&] { Session::open(step(2), options); });
  EXPECT_NE(text.find("ranks 1 of 2 did not join"), std::string::npos) << text;
  openWithValue()->close();
}
