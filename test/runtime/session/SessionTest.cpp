// SPDX-License-Identifier: Apache-2.0
//
// The library: what it computes, and that every error is a value that leaves
// the process alive.
#include "plan/FakeStep.h"

#include "checkpoint/WeightSource.h"
#include "collectives/Job.h"
#include "session/Session.h"

#include <arpa/inet.h>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <sstream>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

constexpr size_t kElements = 6;

uint16_t freePort() {
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr *>(&address), size), 0);
  getsockname(descriptor, reinterpret_cast<sockaddr *>(&address), &size);
  close(descriptor);
  return ntohs(address.sin_port);
}

/// A step of linearStep's form: loss sum((w x - y)^2), SGD with rate 0.5.
class SessionTest : public ::testing::Test {
protected:
  static SessionOptions only() {
    SessionOptions options;
    options.launch.launcher = "the test";
    options.launch.masterHost = "127.0.0.1";
    options.launch.servesStore = true;
    options.timeoutSeconds = 20;
    return options;
  }

  static SessionOptions oneOfTwo(uint32_t rank, uint16_t port) {
    SessionOptions options = only();
    options.launch.mesh = {1, 2};
    options.launch.place = {0, rank};
    options.launch.rank = rank;
    options.launch.masterPort = port;
    options.launch.servesStore = rank == 0;
    return options;
  }

  std::shared_ptr<const StepObject> step(uint32_t locals = 1,
                                         int microBatches = 1) {
    return loadStep(linearStep(1, locals, microBatches).build(folder));
  }

  template <typename T>
  static TensorView view(const std::vector<T> &values, DType dtype) {
    return {reinterpret_cast<const std::byte *>(values.data()), dtype, {2, 3}};
  }

  /// The inputs of a step, for each micro-batch the same.
  std::vector<TensorView> inputs(int microBatches = 1) const {
    std::vector<TensorView> all;
    for (int i = 0; i < microBatches; ++i) {
      all.push_back(view(x, DType::F32));
      all.push_back(view(y, DType::I64));
    }
    return all;
  }

  /// The next loss, and `w` after its update.
  double nextLoss(float rate = 0.5F) {
    double loss = 0;
    for (size_t i = 0; i < kElements; ++i) {
      double diff = w[i] * x[i] - double(y[i]);
      loss += diff * diff;
      w[i] -= rate * float(2 * diff * x[i]);
    }
    return loss;
  }

  std::unique_ptr<Session> openWithValue() {
    auto session = Session::open(step(), only());
    session->setState("tied.w", StateRole::Value, view(w, DType::F32));
    return session;
  }

  /// Expects each function to refuse to work, as a session does that is closed
  /// or has failed.
  void expectAllRefused(Session &session);

  TemporaryFolder folder;
  std::vector<float> w = {0.5, -1, 2, 0.25, 3, -0.75};
  std::vector<float> x = {0.25, -0.5, 0.125, 0.5, -0.25, 0.375};
  std::vector<int64_t> y = {1, 2, 3, 4, 5, 6};
};

/// Expects `work` to throw a SessionError, and returns its text.
template <typename Work>
std::string expectError(SessionErrorCode code, Work work) {
  try {
    work();
    ADD_FAILURE() << "expected the error '" << name(code) << "', got none";
  } catch (const SessionError &error) {
    EXPECT_STREQ(name(error.code()), name(code)) << error.what();
    return error.what();
  }
  return "";
}

void SessionTest::expectAllRefused(Session &session) {
  std::vector<float> read(kElements);
  auto bytes = std::as_writable_bytes(std::span(read));
  const std::function<void()> calls[] = {
      [&] { session.loadWeights({folder.file("w")}); },
      [&] { session.saveWeights({.path = folder.file("w")}); },
      [&] { session.setState("w", StateRole::Value, view(w, DType::F32)); },
      [&] { session.getState("w", StateRole::Value, bytes); },
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

TEST_F(SessionTest, TrainsOnTensors) {
  auto session = openWithValue();
  std::vector<float> read(kElements);
  auto bytes = std::as_writable_bytes(std::span(read));
  session->getState("w", StateRole::Value, bytes);
  EXPECT_EQ(read, w);
  for (int i = 0; i < 3; ++i) {
    session->run(inputs());
    RankStats stats = session->read();
    ASSERT_EQ(stats.losses.size(), 1u);
    double loss = nextLoss();
    EXPECT_NEAR(stats.losses[0], loss, 1e-5 * loss);
    EXPECT_EQ(stats.d2hBytes, 32);
    EXPECT_EQ(session->combine(stats).loss, stats.losses[0]);
  }
  session->getState("w", StateRole::Value, bytes);
  for (size_t i = 0; i < kElements; ++i)
    EXPECT_NEAR(read[i], w[i], 1e-5);
  session->close();
}

TEST_F(SessionTest, SavedWeightsGoOn) {
  std::string path = folder.file("w.safetensors");
  auto first = openWithValue();
  first->run(inputs());
  first->read();
  first->saveWeights({.path = path});
  first->run(inputs());
  double loss = first->read().losses[0];
  first->close();

  auto second = Session::open(step(), only());
  second->loadWeights({path});
  second->run(inputs());
  EXPECT_EQ(second->read().losses[0], loss);
  second->close();
}

TEST_F(SessionTest, ACheckpointGoesOn) {
  CheckpointOptions checkpoints{folder.file("a/run")};
  auto first = openWithValue();
  first->openCheckpoints(checkpoints);
  first->run(inputs());
  first->read();
  first->saveCheckpoint(R"({"epoch": 3})");
  // The copy is of step 1, whatever comes behind it.
  first->run(inputs());
  double loss = first->read().losses[0];
  first->finishCheckpoint();
  auto saved = first->takeSavedCheckpoint();
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->step, 1);
  EXPECT_EQ(saved->path, folder.file("a/run/step-00000001"));
  EXPECT_FALSE(first->takeSavedCheckpoint());
  EXPECT_GE(first->checkpointCopyBytes(), kElements * sizeof(float));
  first->close();

  auto second = Session::open(step(), only());
  auto loaded = second->loadCheckpoint(checkpoints.folder);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, 1);
  EXPECT_EQ(loaded->job, R"({"epoch":3})");
  EXPECT_EQ(second->numSteps(), 1);
  EXPECT_EQ(second->getUpdateCount("w"), 1);
  second->openCheckpoints(checkpoints);
  second->run(inputs());
  EXPECT_EQ(second->read().losses[0], loss);
  // `close` waits until it is complete.
  second->saveCheckpoint();
  second->close();
  EXPECT_TRUE(
      std::filesystem::exists(folder.file("a/run/step-00000002/index.json")));
}

TEST_F(SessionTest, TrainsAtItsLearningRate) {
  auto session = openWithValue();
  EXPECT_EQ(session->learningRate(), 0.5);
  session->setSchedule(Schedule::parse("linear,steps=4", "text"));
  for (float rate : {0.5F, 0.375F, 0.5F, 0.25F, 0.0F, 0.0F}) {
    if (session->numSteps() == 2)
      session->setLearningRate(1);
    EXPECT_EQ(session->learningRate(), rate);
    session->run(inputs());
    RankStats stats = session->read();
    EXPECT_EQ(stats.learningRate, rate);
    EXPECT_EQ(session->combine(stats).learningRate, rate);
    double loss = nextLoss(rate);
    EXPECT_NEAR(stats.losses[0], loss, 1e-5 * loss);
  }
  session->close();
}

TEST_F(SessionTest, RefusesRatesThatAreNone) {
  auto session = openWithValue();
  for (double rate : {-0.5, double(NAN), double(INFINITY)})
    expectError(SessionErrorCode::Misuse,
                [&] { session->setLearningRate(rate); });
  EXPECT_EQ(session->learningRate(), 0.5);
}

TEST_F(SessionTest, RanksHaveOneLearningRate) {
  std::vector<RankStats> ranks(2);
  for (RankStats &rank : ranks)
    rank.losses = {1};
  ranks[0].learningRate = ranks[1].learningRate = 0.5;
  EXPECT_EQ(combine({1, 2}, ranks).learningRate, 0.5);
  ranks[1].learningRate = 0.25;
  try {
    combine({1, 2}, ranks);
    ADD_FAILURE() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "expected one learning rate on all ranks, got "
                               "0.5 on rank 0 and 0.25 on rank 1");
  }
}

TEST_F(SessionTest, ACheckpointHasTheLearningRate) {
  CheckpointOptions checkpoints{folder.file("run")};
  auto first = openWithValue();
  first->setSchedule(Schedule::parse("linear,steps=4", "text"));
  first->setLearningRate(2);
  first->openCheckpoints(checkpoints);
  first->run(inputs());
  first->read();
  first->saveCheckpoint(R"({"epoch": 3, "schedule": "the program's"})");
  first->close();
  first.reset();

  auto second = Session::open(step(), only());
  auto loaded = second->loadCheckpoint(checkpoints.folder);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->job,
            R"({"epoch":3,"learning_rate":2.0,"schedule":"linear,steps=4"})");
  EXPECT_EQ(second->learningRate(), 1.5);
  second->setSchedule(Schedule::parse("linear,steps=2", "text"));
  EXPECT_EQ(second->learningRate(), 1);
}

TEST_F(SessionTest, ACheckpointWithADamagedLearningRate) {
  const std::tuple<const char *, const char *, const char *> cases[] = {
      {R"("schedule":"linear,steps=4")", R"("schedule":"linear")",
       "index.json.job.schedule: schedule 'linear' needs 'steps'"},
      {R"("schedule":"linear,steps=4")", R"("schedule":4)",
       "index.json.job.schedule: expected "},
      {R"("learning_rate":2.0)", R"("learning_rate":-2.0)",
       "index.json.job.learning_rate: expected a finite rate of at least 0, "
       "got -2.0"}};
  for (const auto &[good, bad, expected] : cases) {
    std::string run = folder.file("run"), index = run + "/step-00000000";
    std::filesystem::remove_all(run);
    auto first = openWithValue();
    first->setSchedule(Schedule::parse("linear,steps=4", "text"));
    first->setLearningRate(2);
    first->openCheckpoints({run});
    first->saveCheckpoint();
    first->close();
    first.reset();
    index += "/index.json";
    std::stringstream text;
    text << std::ifstream(index).rdbuf();
    std::string damaged = text.str();
    size_t place = damaged.find(good);
    ASSERT_NE(place, damaged.npos) << damaged;
    damaged.replace(place, std::strlen(good), bad);
    std::ofstream(index) << damaged;

    auto second = Session::open(step(), only());
    std::string error = expectError(SessionErrorCode::BadWeights,
                                    [&] { second->loadCheckpoint(run); });
    EXPECT_NE(error.find(expected), error.npos) << error;
  }
}

TEST_F(SessionTest, MisusedCheckpoints) {
  CheckpointOptions checkpoints{folder.file("run")};
  auto session = openWithValue();
  EXPECT_FALSE(session->loadCheckpoint(folder.file("run")));
  expectError(SessionErrorCode::Misuse, [&] { session->saveCheckpoint(); });
  expectError(SessionErrorCode::Misuse,
              [&] { session->openCheckpoints({""}); });
  expectError(SessionErrorCode::Misuse,
              [&] { session->openCheckpoints({"run", 0}); });
  session->openCheckpoints(checkpoints);
  expectError(SessionErrorCode::Misuse,
              [&] { session->openCheckpoints(checkpoints); });
  expectError(SessionErrorCode::Misuse,
              [&] { session->saveCheckpoint("no object"); });
  session->run(inputs());
  expectError(SessionErrorCode::Misuse,
              [&] { session->loadCheckpoint(folder.file("run")); });
  session->saveCheckpoint();
  session->close();

  // Training from the beginning would not be what the checkpoint is of.
  auto other = openWithValue();
  std::string text = expectError(SessionErrorCode::FileFailed,
                                 [&] { other->openCheckpoints(checkpoints); });
  EXPECT_NE(text.find("has a checkpoint of step 1"), std::string::npos) << text;
}

TEST_F(SessionTest, NoCheckpointIsSavedAfterAnInfiniteLoss) {
  x[1] = 1e30F;
  auto session = openWithValue();
  session->openCheckpoints({folder.file("run")});
  session->run(inputs());
  session->read();
  EXPECT_EQ(expectError(SessionErrorCode::NotFinite,
                        [&] { session->saveCheckpoint(); }),
            "step 1: the loss of micro-batch 1 of 1 on rank 0 (node 0, local "
            "0) is infinite");
  expectAllRefused(*session);
  session.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("run")));
}

TEST_F(SessionTest, AStepIsSkippedOrNot) {
  for (auto mode : {OnNonfinite::Skip, OnNonfinite::Continue}) {
    SessionOptions options = only();
    options.onNonfinite = mode;
    auto session = Session::open(step(), options);
    session->setState("w", StateRole::Value, view(w, DType::F32));
    x[1] = std::numeric_limits<float>::quiet_NaN();
    session->run(inputs());
    StepStats stats = session->combine(session->read());
    EXPECT_EQ(stats.step, 1);
    EXPECT_EQ(stats.skipped, mode == OnNonfinite::Skip);
    ASSERT_TRUE(stats.nonfinite);
    EXPECT_EQ(stats.nonfinite->microBatch, 0u);
    session->requireFinite(stats);
    EXPECT_EQ(session->getUpdateCount("w"), mode == OnNonfinite::Skip ? 0 : 1);
    std::vector<float> read(kElements);
    session->getState("w", StateRole::Value,
                      std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read == w, mode == OnNonfinite::Skip);
    session->close();
  }
}

TEST_F(SessionTest, ACheckpointOfAnotherModelListsWhatDiffers) {
  FakeStep other = linearStep(1, 1, 1);
  other.plan["parameters"][0]["names"] = {"v"};
  auto first = Session::open(loadStep(other.build(folder)), only());
  first->setState("v", StateRole::Value, view(w, DType::F32));
  first->openCheckpoints({folder.file("run")});
  first->saveCheckpoint();
  first->close();
  first.reset();

  auto second = Session::open(step(), only());
  std::string text = expectError(SessionErrorCode::BadWeights, [&] {
    second->loadCheckpoint(folder.file("run"));
  });
  EXPECT_NE(text.find("step-00000000: does not fit the step: it lacks w; the "
                      "step has no v"),
            std::string::npos)
      << text;
}

TEST_F(SessionTest, AFolderThatCannotBeMade) {
  std::ofstream(folder.file("file")) << "text";
  auto session = openWithValue();
  expectError(SessionErrorCode::FileFailed,
              [&] { session->openCheckpoints({folder.file("file/run")}); });
}

TEST_F(SessionTest, AFailedWriteEndsTheSession) {
  auto session = openWithValue();
  session->openCheckpoints({folder.file("run")});
  session->run(inputs());
  session->read();
  std::filesystem::remove_all(folder.file("run"));
  std::ofstream(folder.file("run")) << "a file in its place";
  session->saveCheckpoint();
  std::string text = expectError(SessionErrorCode::FileFailed,
                                 [&] { session->finishCheckpoint(); });
  EXPECT_EQ(text.find("the checkpoint cannot be saved: " + folder.file("run")),
            0u)
      << text;
  expectAllRefused(*session);
}

TEST_F(SessionTest, MicroBatchesHaveALossEach) {
  auto session = Session::open(step(1, 3), only());
  session->setState("w", StateRole::Value, view(w, DType::F32));
  session->run(inputs(3));
  std::vector<double> losses = session->read().losses;
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  session->close();
}

TEST_F(SessionTest, RefusedCallsChangeNothing) {
  auto session = openWithValue();
  expectError(SessionErrorCode::Misuse, [&] { session->read(); });
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("v", StateRole::Value, view(w, DType::F32));
  });
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("w", StateRole::Value, view(w, DType::F16));
  });
  // SGD without momentum has no state.
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("w", StateRole::ExpAvg, view(w, DType::F32));
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
    session->setState("w", StateRole::Value, view(w, DType::F32));
  });
  expectError(SessionErrorCode::Misuse,
              [&] { session->setUpdateCount("w", 1); });
  session->close();
  expectAllRefused(*session);
}

TEST_F(SessionTest, BadStatesAreRefused) {
  auto session = openWithValue();
  expectError(SessionErrorCode::Misuse, [&] {
    session->setState("w", StateRole::Value, {nullptr, DType::F32, {2, 3}});
  });
  expectError(SessionErrorCode::Misuse, [&] {
    session->getState("w", StateRole::Value,
                      {static_cast<std::byte *>(nullptr), 24});
  });
  std::byte byte;
  expectError(SessionErrorCode::Misuse,
              [&] { session->getState("w", StateRole::Value, {&byte, 1}); });
  expectError(SessionErrorCode::Misuse, [&] { session->getUpdateCount("v"); });
  expectError(SessionErrorCode::Misuse,
              [&] { session->setUpdateCount("w", -1); });
  session->setUpdateCount("w", 1);
  EXPECT_EQ(session->getUpdateCount("w"), 1);
  session->close();
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
  session->setState("w", StateRole::Value, view(w, DType::F32));
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

/// Two ranks: this process is rank 0, and a child is rank 1.
class TwoRanksTest : public SessionTest {
protected:
  /// `work` runs in the child, whose exit code it returns.
  template <typename Work>
  void startOther(Work work) {
    object = step(2);
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      _exit(work(oneOfTwo(1, port)));
  }
  void open(Session &session) {
    session.setState("w", StateRole::Value, view(w, DType::F32));
    session.begin();
  }
  void waitForOther(int expected) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), expected);
  }

  const uint16_t port = freePort();
  std::shared_ptr<const StepObject> object;
  pid_t child = -1;
};

TEST_F(TwoRanksTest, TrainTogether) {
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    open(*session);
    session->run(inputs());
    session->combine(session->read());
    session->getState("w", StateRole::Value, {});
    session->close();
    return 0;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  open(*session);
  session->run(inputs());
  StepStats stats = session->combine(session->read());
  double loss = nextLoss();
  EXPECT_NEAR(stats.loss, loss, 1e-5 * loss);
  std::vector<float> read(kElements);
  session->getState("w", StateRole::Value,
                    std::as_writable_bytes(std::span(read)));
  for (size_t i = 0; i < kElements; ++i)
    EXPECT_NEAR(read[i], w[i], 1e-5);
  session->close();
  waitForOther(0);
}

/// A step that weights its losses by `y`, which is rank + 1 everywhere.
class WeightedTest : public TwoRanksTest {
protected:
  void SetUp() override {
    FakeStep fake = linearStep(1, 2, 1);
    fake.plan["loss_weight"] = "y";
    fake.slot({{"kind", "loss_weight"}});
    for (Json &op : fake.plan["ops"])
      if (op["kind"] == "pack")
        op["whole"] = device(0, 0);
    weighted = loadStep(fake.build(folder));
  }

  std::unique_ptr<Session> openRank(uint32_t rank) {
    auto session = Session::open(weighted, oneOfTwo(rank, port));
    open(*session);
    std::fill(y.begin(), y.end(), rank + 1);
    return session;
  }

  std::shared_ptr<const StepObject> weighted;
};

TEST_F(WeightedTest, RanksAgreeOnTheWeight) {
  auto run = [&](uint32_t rank) {
    auto session = openRank(rank);
    session->run(inputs());
    RankStats own = session->read();
    EXPECT_EQ(own.weights, std::vector<double>{double(kElements) * (rank + 1)});
    own.nextWeight = 5 + rank;
    StepStats stats = session->combine(own);
    EXPECT_EQ(stats.weight, double(3 * kElements));
    EXPECT_EQ(stats.nextWeight, 11);
    StepNeeds needs = session->agreeOnNeeds({0, rank + 0.5});
    EXPECT_EQ(needs.weight, 2);
    session->close();
    return stats.loss + HasFailure();
  };
  startOther([&](const SessionOptions &) { return run(1) > 0 ? 0 : 1; });
  EXPECT_GT(run(0), 0);
  waitForOther(0);
}

TEST_F(WeightedTest, WithoutWeightAllRanksEnd) {
  auto run = [&](uint32_t rank) {
    auto session = openRank(rank);
    std::fill(y.begin(), y.end(), 0);
    try {
      session->run(inputs());
    } catch (const SessionError &error) {
      EXPECT_EQ(error.code(), SessionErrorCode::InputMismatch);
      EXPECT_EQ(std::string(error.what()),
                "step 1: expected a loss with a weight above 0, but all "
                "elements of the input 'y', by which losses are weighted, are "
                "0 on all ranks");
      return HasFailure() ? 1 : 0;
    }
    return 1;
  };
  startOther([&](const SessionOptions &) { return run(1); });
  EXPECT_EQ(run(0), 0);
  waitForOther(0);
}

TEST_F(WeightedTest, NeedsAreGivenWithAFunctionThatFills) {
  auto run = [&](uint32_t rank) {
    auto session = openRank(rank);
    auto code = SessionErrorCode::Failed;
    try {
      session->run([](size_t, int64_t, std::span<std::byte>) {});
    } catch (const SessionError &error) {
      code = error.code();
    }
    session->close();
    return code == SessionErrorCode::Misuse ? 0 : 1;
  };
  startOther([&](const SessionOptions &) { return run(1); });
  EXPECT_EQ(run(0), 0);
  waitForOther(0);
}

// Rank 0 has a finite loss, and learns of the other one.
TEST_F(TwoRanksTest, AnInfiniteLossIsThatOfAll) {
  auto train = [&](Session &session) {
    open(session);
    if (session.rank() == 1)
      x[1] = 1e30F;
    session.run(inputs());
    session.requireFinite(session.combine(session.read()));
  };
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    try {
      train(*session);
    } catch (const SessionError &error) {
      return error.code() == SessionErrorCode::NotFinite ? 0 : 1;
    }
    return 2;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  EXPECT_EQ(expectError(SessionErrorCode::NotFinite, [&] { train(*session); }),
            "step 1: the loss of micro-batch 1 of 1 on rank 1 (node 0, local "
            "1) is infinite");
  waitForOther(0);
}

// Rank 1 cannot write; rank 0, which waits for it in the background, says so.
TEST_F(TwoRanksTest, AFailedWriteIsThatOfAll) {
  std::string run = folder.file("run");
  auto train = [&](Session &session) {
    session.openCheckpoints({run});
    open(session);
    for (int i = 0; i < 2; ++i) {
      session.run(inputs());
      session.read();
      session.saveCheckpoint();
      session.finishCheckpoint();
      if (session.rank() == 1) {
        const rlimit none = {0, RLIM_INFINITY};
        std::signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &none);
      }
    }
  };
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    try {
      train(*session);
    } catch (const SessionError &error) {
      return error.code() == SessionErrorCode::FileFailed ? 0 : 1;
    }
    return 2;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  std::string text =
      expectError(SessionErrorCode::PeerFailed, [&] { train(*session); });
  EXPECT_NE(text.find("rank 1 (node 0, local 1) failed: the checkpoint cannot "
                      "be saved: " +
                      run),
            std::string::npos)
      << text;
  session.reset();
  waitForOther(0);
  EXPECT_TRUE(std::filesystem::exists(run + "/step-00000001/index.json"));
  EXPECT_FALSE(std::filesystem::exists(run + "/step-00000002"));
}

// As on two nodes that each have a folder of this name.
TEST_F(TwoRanksTest, AFolderThatIsNotSharedIsRefused) {
  std::filesystem::create_directory(folder.file("own"));
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    try {
      session->openCheckpoints({folder.file("own")});
    } catch (const SessionError &error) {
      return error.code() == SessionErrorCode::FileFailed ? 0 : 1;
    }
    return 2;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  std::string text = expectError(SessionErrorCode::PeerFailed, [&] {
    session->openCheckpoints({folder.file("run")});
  });
  EXPECT_NE(text.find("must be shared by all nodes"), std::string::npos)
      << text;
  session.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("run")));
  waitForOther(0);
}

TEST_F(TwoRanksTest, ADeadRankIsAnError) {
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    open(*session);
    session->run(inputs());
    _exit(7); // without a word
    return 0;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  open(*session);
  std::string text = expectError(SessionErrorCode::PeerFailed, [&] {
    for (int i = 0; i < 1000; ++i) {
      session->run(inputs());
      session->read();
    }
  });
  EXPECT_NE(text.find("rank 1 "), std::string::npos) << text;
  waitForOther(7);
  // Lives on, and can load another step of the same path.
  session.reset();
  object.reset();
  openWithValue()->close();
}

TEST_F(TwoRanksTest, ARankSaysWhyItFailed) {
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    open(*session);
    try {
      session->guard([] { throw std::runtime_error("out of data"); });
    } catch (const SessionError &error) {
      return error.code() == SessionErrorCode::Failed ? 0 : 1;
    }
    return 2;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  open(*session);
  std::string text = expectError(SessionErrorCode::PeerFailed, [&] {
    session->run(inputs());
    session->read();
  });
  EXPECT_NE(text.find("rank 1 (node 0, local 1) failed: out of data"),
            std::string::npos)
      << text;
  waitForOther(0);
}

// The other rank lives, and takes no part in the step.
TEST_F(TwoRanksTest, ARankThatDoesNotComeIsATimeOut) {
  int pipeOfChild[2];
  ASSERT_EQ(pipe(pipeOfChild), 0);
  startOther([&](const SessionOptions &options) {
    close(pipeOfChild[1]);
    auto session = Session::open(object, options);
    open(*session);
    char byte;
    (void)!read(pipeOfChild[0], &byte, 1);
    return 0;
  });
  close(pipeOfChild[0]);
  SessionOptions options = oneOfTwo(0, port);
  options.timeoutSeconds = 2;
  auto session = Session::open(object, options);
  open(*session);
  std::string text = expectError(SessionErrorCode::TimedOut, [&] {
    session->run(inputs());
    session->read();
  });
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  close(pipeOfChild[1]);
  waitForOther(0);
}

// The rank that serves the store waits for the others when it closes.
TEST_F(TwoRanksTest, ARankThatDiesBeforeItClosesIsAnError) {
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    open(*session);
    session->run(inputs());
    session->job().barrier("end of the run");
    _exit(7);
    return 0;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  open(*session);
  session->run(inputs());
  std::string text =
      expectError(SessionErrorCode::PeerFailed, [&] { session->close(); });
  EXPECT_NE(text.find("rank 1 "), std::string::npos) << text;
  waitForOther(7);
}

TEST_F(TwoRanksTest, AProblemOfOneRankIsThatOfAll) {
  startOther([&](SessionOptions options) {
    options.check = [] { throw std::runtime_error("no data today"); };
    try {
      Session::open(object, options);
    } catch (const SessionError &error) {
      return error.code() == SessionErrorCode::InputMismatch ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(expectError(SessionErrorCode::PeerFailed,
                        [&] { Session::open(object, oneOfTwo(0, port)); }),
            "rank 1 (node 0, local 1) failed: no data today");
  waitForOther(0);
}

// A scan may take longer than the ranks would wait for each other to join.
TEST_F(TwoRanksTest, ARankScansItsInputsOnceItHasJoined) {
  auto scanFor = [](double seconds, const char *problem) {
    return [=] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      if (*problem)
        throw std::runtime_error(problem);
    };
  };
  startOther([&](SessionOptions options) {
    options.timeoutSeconds = 1;
    options.scan = scanFor(4, "value 97 at position 3");
    try {
      Session::open(object, options);
    } catch (const SessionError &error) {
      return error.code() == SessionErrorCode::InputMismatch ? 0 : 1;
    }
    return 2;
  });
  SessionOptions options = oneOfTwo(0, port);
  options.timeoutSeconds = 1;
  options.scan = scanFor(0, "");
  EXPECT_EQ(expectError(SessionErrorCode::PeerFailed,
                        [&] { Session::open(object, options); }),
            "rank 1 (node 0, local 1) failed: value 97 at position 3");
  waitForOther(0);
}

TEST_F(TwoRanksTest, OtherValuesOfOneRankEndBoth) {
  const std::string expected =
      "the ranks differ in the values of parameters and states that were set: ";
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    w[2] += 1;
    try {
      open(*session);
    } catch (const SessionError &error) {
      return error.code() == SessionErrorCode::BadWeights &&
                     std::string(error.what()).starts_with(expected)
                 ? 0
                 : 1;
    }
    return 2;
  });
  auto session = Session::open(object, oneOfTwo(0, port));
  std::string text =
      expectError(SessionErrorCode::BadWeights, [&] { open(*session); });
  EXPECT_EQ(text.rfind(expected, 0), 0u) << text;
  waitForOther(0);
}

TEST_F(TwoRanksTest, OtherFactsOfOneRankEndBoth) {
  const std::string expected =
      "the ranks differ in the rows: 5 on rank 0 (node 0, local 0); 6 on rank "
      "1 (node 0, local 1); all ranks must have the same";
  auto haveRows = [](const char *rows) {
    return [rows] { return std::vector<Fact>{{"the rows", rows}}; };
  };
  startOther([&](SessionOptions options) {
    options.facts = haveRows("6");
    try {
      Session::open(object, options);
    } catch (const SessionError &error) {
      return error.what() == expected ? 0 : 1;
    }
    return 2;
  });
  SessionOptions options = oneOfTwo(0, port);
  options.facts = haveRows("5");
  EXPECT_EQ(expectError(SessionErrorCode::RendezvousFailed,
                        [&] { Session::open(object, options); }),
            expected);
  waitForOther(0);
}

TEST_F(TwoRanksTest, DeterministicOperatorsOfOneRankEndBoth) {
  const std::string expected =
      "the ranks differ in deterministic operators: no on rank 0 (node 0, "
      "local 0); yes on rank 1 (node 0, local 1); all ranks must have the same";
  startOther([&](SessionOptions options) {
    options.deterministic = true;
    try {
      Session::open(object, options);
    } catch (const SessionError &error) {
      return error.what() == expected ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(expectError(SessionErrorCode::RendezvousFailed,
                        [&] { Session::open(object, oneOfTwo(0, port)); }),
            expected);
  waitForOther(0);
}

} // namespace
