// SPDX-License-Identifier: Apache-2.0
//
// Sessions of two ranks: what they agree on, and how one ends that has lost the
// other.
#include "SessionFixture.h"

#include "job/Job.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <sys/resource.h>

using namespace fcdp;
using namespace fcdp::test;

TEST_F(TwoRanksTest, TrainTogether) {
  startOther([&](const SessionOptions &options) {
    auto session = Session::open(object, options);
    open(*session);
    session->run(inputs());
    session->combine(session->read());
    session->getState("w", plan::StateRole::shard, {});
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
  session->getState("w", plan::StateRole::shard,
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
    own.next.weight = 5 + rank;
    StepStats stats = session->combine(own);
    EXPECT_EQ(stats.weight, double(3 * kElements));
    EXPECT_EQ(stats.next.weight, 11);
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
