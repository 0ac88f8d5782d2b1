// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints and weights of a session.
#include "SessionFixture.h"

#include "checkpoint/CheckpointIndex.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace fcdp;
using namespace fcdp::test;

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
  // The copy is of step 1, whatever runs after it.
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
    // With the digest of what it has now.
    damaged.resize(damaged.rfind(",\"digest\""));
    std::ofstream(index) << sealIndex(damaged + "}");

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

TEST_F(SessionTest, ACheckpointOfAnotherModelListsWhatDiffers) {
  FakeStep other = linearStep(1, 1, 1);
  other.plan["parameters"][0]["names"] = {"v"};
  auto first = Session::open(loadStep(other.build(folder)), only());
  first->setState("v", plan::StateRole::shard, view(w, DType::F32));
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
