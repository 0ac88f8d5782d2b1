// SPDX-License-Identifier: Apache-2.0
//
// Runs fcdp-run, and checks its results and exit codes.
#include "session/RunFixture.h"

#include "checkpoint/CheckpointIndex.h"
#include "weights/WeightSource.h"

#include <chrono>

using namespace fcdp;
using namespace fcdp::test;

namespace {

class RunTest : public RunFixture {
protected:
  /// The losses that linearStep must have, and the weights after it.
  std::vector<double> reference(int steps, int ranks, int microBatches) {
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
      std::vector<double> grad(6);
      double loss = 0;
      for (int m = 0; m < ranks * microBatches; ++m) {
        int64_t row = (step * microBatches * ranks + m) % kRows;
        for (int i = 0; i < 6; ++i) {
          double x = sample(row * 6 + i);
          double diff = weights[i] * x - label(row * 6 + i);
          loss += diff * diff;
          grad[i] += 2 * diff * x;
        }
      }
      losses.push_back(loss / (ranks * microBatches));
      for (int i = 0; i < 6; ++i)
        weights[i] -= 0.5 * grad[i] / (ranks * microBatches);
    }
    return losses;
  }

  void checkTraining(uint32_t nodes, uint32_t locals, int microBatches,
                     const std::string &launch);
};

void RunTest::checkTraining(uint32_t nodes, uint32_t locals, int microBatches,
                            const std::string &launch) {
  constexpr int steps = 5;
  std::string object = linearStep(nodes, locals, microBatches).build(folder);
  std::string out = folder.file("out.safetensors");
  Outcome run = execute(
      launch + command(object, "--steps=5 --json=" + folder.file("log.jsonl") +
                                   " --params-out=" + out));
  ASSERT_EQ(run.exitCode, 0) << run.output;
  EXPECT_EQ(count(run.output, "step "), size_t(steps)) << run.output;
  std::vector<double> losses = reference(steps, nodes * locals, microBatches);
  std::vector<Json> log = readLog();
  ASSERT_EQ(log.size(), size_t(steps));
  for (int i = 0; i < steps; ++i) {
    EXPECT_EQ(log[i]["step"], i + 1);
    EXPECT_NEAR(log[i]["loss"], losses[i], 1e-5 * losses[i]);
    // Gathers and reductions of 32 bytes, each rank's part.
    uint64_t inter = 2 * 32 * (nodes - 1) / nodes * microBatches;
    EXPECT_EQ(log[i]["inter_bytes_sent"], inter);
    uint64_t intra = 2 * 32 * (locals - 1) * microBatches;
    EXPECT_EQ(log[i]["intra_bytes_sent"], intra);
    EXPECT_EQ(log[i]["d2h_bytes"], 32 * microBatches);
    EXPECT_EQ(log[i]["h2d_bytes"], 32 * microBatches);
    EXPECT_EQ(log[i]["host_cache_bytes"], 4096);
    if (i > 0) {
      EXPECT_EQ(log[i]["system_allocations"], 0) << "step " << i + 1;
    }
  }
  auto saved = openWeights(out);
  StoredTensor tensor = requireTensor(*saved, {"tied.w"}, {2, 3}, DType::F32);
  for (int i = 0; i < 6; ++i) {
    float value;
    copyElements(tensor, i, 1, reinterpret_cast<std::byte *>(&value));
    EXPECT_NEAR(value, weights[i], 1e-5);
  }
}

TEST_F(RunTest, OneRank) { checkTraining(1, 1, 1, ""); }
TEST_F(RunTest, OneRankThreeMicroBatches) { checkTraining(1, 1, 3, ""); }
TEST_F(RunTest, TwoByTwoRanks) { checkTraining(2, 2, 1, ""); }
TEST_F(RunTest, TwoByTwoRanksThreeMicroBatches) { checkTraining(2, 2, 3, ""); }
TEST_F(RunTest, FourNodes) { checkTraining(4, 1, 1, ""); }

TEST_F(RunTest, Mpirun) {
  checkTraining(1, 2, 1,
                "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                "mpirun --oversubscribe -n 2 ");
}

TEST_F(RunTest, Torchrun) {
  checkTraining(1, 2, 1,
                FCDP_TORCHRUN " --no-python --nproc-per-node 2 "
                              "--master-port 0 --nnodes 1 --rdzv-backend c10d "
                              "--rdzv-endpoint 127.0.0.1:0 ");
}

TEST_F(RunTest, NumbersMayHaveExponents) {
  std::string object = linearStep(1, 1, 1).build(folder);
  Outcome run = execute(command(object, "--steps=0.2e1 --log-every=1E0"));
  ASSERT_EQ(run.exitCode, 0) << run.output;
  EXPECT_EQ(count(run.output, "step "), 2u) << run.output;
  for (const char *steps : {"1.5e0", "1e-1", "1e99", "-1e0", "1e", "e1"}) {
    run = execute(command(object, std::string("--steps=") + steps));
    EXPECT_EQ(run.exitCode, 1) << steps;
    EXPECT_EQ(count(run.output, "--steps"), 1u) << run.output;
  }
}

TEST_F(RunTest, TwoJobsAtOnce) {
  std::string object = linearStep(1, 2, 1).build(folder);
  Outcome both = execute("(" + command(object) + " & " + command(object) +
                         "; a=$?; wait $! && exit $a)");
  EXPECT_EQ(both.exitCode, 0) << both.output;
  EXPECT_EQ(count(both.output, "step 1"), 2u) << both.output;
}

TEST_F(RunTest, GoesOnFromSavedParameters) {
  std::string object = linearStep(1, 2, 1).build(folder);
  std::string out = folder.file("out.safetensors");
  ASSERT_EQ(execute(command(object, "--params-out=" + out)).exitCode, 0);
  // A tensor comes from the first of several files that has it.
  Outcome again = execute(command(object, "--weights=" + out));
  EXPECT_EQ(again.exitCode, 0) << again.output;
  Outcome on = execute(FCDP_RUN " " + object + " --weights=" + out +
                       " --input x=random:1 --input y=random:2");
  EXPECT_EQ(on.exitCode, 0) << on.output;
}

// Steps 1 to 3, and 4 to 6 in another run: as one run of 6 steps. The log of
// the first one has more steps than its checkpoint.
TEST_F(RunTest, ResumesWhereItWasSaved) {
  std::string object = linearStep(2, 2, 3).build(folder);
  std::string log = " --json=" + folder.file("log.jsonl");
  std::string out = " --params-out=" + folder.file("out.safetensors");
  ASSERT_EQ(execute(command(object, "--steps=6" + log + out)).exitCode, 0);
  std::vector<Json> whole = readLog();
  std::string parameters = contentOf("out.safetensors");

  std::string dir = " --save-dir=" + folder.file("run") + log + out;
  Outcome first = execute(command(object, "--steps=5 --save-every=3" + dir));
  ASSERT_EQ(first.exitCode, 0) << first.output;
  EXPECT_EQ(count(first.output, "saved "), 2u) << first.output;
  std::filesystem::remove_all(folder.file("run/step-00000005"));
  Outcome second = execute(command(object, "--steps=6 --resume" + dir));
  ASSERT_EQ(second.exitCode, 0) << second.output;
  EXPECT_EQ(count(second.output, "step "), 3u) << second.output;
  EXPECT_EQ(count(second.output, "resumed from "), 1u) << second.output;

  std::vector<Json> resumed = readLog();
  ASSERT_EQ(resumed.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(resumed[i]["step"], i + 1);
    EXPECT_EQ(resumed[i]["loss"], whole[i]["loss"]);
  }
  EXPECT_EQ(contentOf("out.safetensors"), parameters);

  // All is done: nothing is run, and nothing is changed.
  Outcome third = execute(command(object, "--steps=6 --resume" + dir));
  EXPECT_EQ(third.exitCode, 0) << third.output;
  EXPECT_EQ(count(third.output, "step "), 0u) << third.output;
  EXPECT_EQ(readLog().size(), 6u);
  EXPECT_EQ(contentOf("out.safetensors"), parameters);

  Outcome again = execute(command(object, "--steps=6" + dir));
  EXPECT_EQ(again.exitCode, 1);
  EXPECT_EQ(count(again.output, "has a checkpoint of step 6"), 1u)
      << again.output;
}

TEST_F(RunTest, ResumesFromAPathWithoutWeights) {
  std::string object = linearStep(1, 2, 1).build(folder);
  std::string run = folder.file("run");
  // --resume begins where there is nothing.
  Outcome first = execute(command(
      object, "--steps=4 --save-every=1 --keep=2 --resume --save-dir=" + run));
  ASSERT_EQ(first.exitCode, 0) << first.output;
  EXPECT_FALSE(std::filesystem::exists(run + "/step-00000002"));
  std::string inputs = " --input x=" + folder.file("x.npy") +
                       " --input y=" + folder.file("y.bin") + ":u16";
  for (const std::string &from : {run, run + "/step-00000004"}) {
    Outcome second = execute(FCDP_RUN " " + object + " --resume=" + from +
                             " --steps=5" + inputs);
    EXPECT_EQ(second.exitCode, 0) << second.output;
    EXPECT_EQ(count(second.output, "step 5"), 1u) << second.output;
  }
  Outcome third = execute(FCDP_RUN " " + object + " --resume=" + run +
                          "/step-00000002" + inputs);
  EXPECT_EQ(third.exitCode, 1);
  EXPECT_EQ(count(third.output, "expected a complete checkpoint, got none"), 1u)
      << third.output;
}

TEST_F(RunTest, ResumesFromTheSaveDirWithoutWeights) {
  std::string object = linearStep(1, 2, 1).build(folder);
  std::string options = " --input x=" + folder.file("x.npy") +
                        " --input y=" + folder.file("y.bin") +
                        ":u16 --resume --save-dir=" + folder.file("run");
  Outcome none = execute(FCDP_RUN " " + object + options + " --steps=2");
  EXPECT_EQ(none.exitCode, 1);
  EXPECT_EQ(count(none.output, "--resume: expected a complete checkpoint in " +
                                   folder.file("run") +
                                   ", got none; give --weights"),
            1u)
      << none.output;
  ASSERT_EQ(execute(FCDP_RUN " " + object + options +
                    " --steps=2 --weights=" + folder.file("w.pt2"))
                .exitCode,
            0);
  Outcome resumed = execute(FCDP_RUN " " + object + options + " --steps=3");
  EXPECT_EQ(resumed.exitCode, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "step 3"), 1u) << resumed.output;
}

TEST_F(RunTest, APositionThatNoJobCanHaveIsRefused) {
  std::string object = linearStep(1, 1, 1).build(folder);
  std::string run = folder.file("run"), index = "run/step-00000002/index.json";
  ASSERT_EQ(execute(command(object, "--steps=2 --save-dir=" + run)).exitCode,
            0);
  const std::string good = contentOf(index);
  for (const char *rows : {"-1", "1e18", "\"2\"", "true", "1000000000000"}) {
    std::string text = good.substr(0, good.rfind(",\"digest\""));
    const size_t at = text.find("\"rows\":2");
    ASSERT_NE(at, text.npos) << text;
    text.replace(at, 8, std::string("\"rows\":") + rows);
    std::ofstream(folder.file(index)) << sealIndex(text + "}");
    Outcome outcome = execute(command(object, "--steps=3 --resume=" + run));
    EXPECT_EQ(outcome.exitCode, 1) << rows << outcome.output;
    EXPECT_EQ(count(outcome.output, "index.json.job.rows: expected an integer"),
              1u)
        << outcome.output;
  }
}

TEST_F(RunTest, ACheckpointOfAnOlderReleaseIsReadWithANote) {
  std::string object = linearStep(1, 1, 1).build(folder);
  std::string run = folder.file("run"), index = "run/step-00000002/index.json";
  ASSERT_EQ(execute(command(object, "--steps=2 --save-dir=" + run)).exitCode,
            0);
  Outcome outcome = execute(command(object, "--steps=3 --resume=" + run));
  EXPECT_EQ(count(outcome.output, "no digests"), 0u) << outcome.output;
  Json json = Json::parse(contentOf(index));
  json["version"] = 1;
  json.erase("digest");
  for (Json &file : json["files"])
    file.erase("digest");
  std::ofstream(folder.file(index)) << json;
  outcome = execute(command(object, "--steps=3 --resume=" + run));
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "note: this checkpoint has no digests"), 1u)
      << outcome.output;
}

struct BadCommand {
  const char *name;
  const char *arguments;
  const char *message;
};

/// Errors that a user can make: each prints one line, ends with exit code 1,
/// and leaves no file.
class BadCommandTest : public RunTest,
                       public ::testing::WithParamInterface<BadCommand> {};

std::string replaceAll(std::string text, const std::string &from,
                       const std::string &to) {
  for (size_t at = text.find(from); at != text.npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST_P(BadCommandTest, OneErrorLine) {
  linearStep(2, 2, 1).build(folder);
  std::string arguments =
      replaceAll(GetParam().arguments, "@", folder.path.string() + "/");
  Outcome run = execute(FCDP_RUN " " + arguments);
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_EQ(count(run.output, "\n"), 1u) << run.output;
  EXPECT_EQ(count(run.output, "fcdp-run: error: "), 1u) << run.output;
  EXPECT_NE(run.output.find(GetParam().message), std::string::npos)
      << run.output;
  EXPECT_FALSE(std::filesystem::exists(folder.file("log")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("log.tmp")));
}

const BadCommand kBadCommands[] = {
    {"NoArguments", "", "STEP is required"},
    {"NoWeights", "@step.so", "--weights is required"},
    {"ProbeOfAStep", "@step.so --probe-cluster=@c.yaml",
     "--probe-cluster: expected neither a step nor an output file"},
    {"NoObject", "@none.so --weights=@w.pt2", "none.so: cannot open this file"},
    {"NotAnObject", "@w.pt2 --weights=@w.pt2",
     "w.pt2: cannot be loaded: expected an object that fcdp-compile made, got "
     "an archive"},
    {"OtherMesh", "@step.so --weights=@w.pt2 --nodes 4 --ranks-per-node 1",
     "the step was compiled for 2 nodes x 2 ranks, but fcdp-run starts 4 nodes "
     "x 1 rank"},
    {"OneNodeOnly", "@step.so --weights=@w.pt2 --nodes 1",
     "fcdp-run starts 1 node x 2 ranks"},
    {"InputMissing", "@step.so --weights=@w.pt2 --input x=@x.npy --json=@log",
     "--input y=FILE is missing; the step's inputs are: x f32[2, 3], y "
     "i64[2, 3]"},
    {"InputUnknown", "@step.so --weights=@w.pt2 --input z=@x.npy",
     "--input z: unknown"},
    {"InputType",
     "@step.so --weights=@w.pt2 --input x=@x.npy --input y=@x.npy --json=@log",
     "input 'y': expected type i64, got <f4"},
    {"WeightsMissing",
     "@step.so --weights=@none --input x=@x.npy --input y=@y.bin:u16 "
     "--json=@log",
     "none: expected a .pt2 archive"},
    {"WeightsOfAnotherModel",
     "@step.so --weights=@other.pt2 --input x=@x.npy --input y=@y.bin:u16",
     "other.pt2: 'w': expected shape [2, 3], got [6]"},
    {"JsonUnwritable",
     "@step.so --weights=@w.pt2 --input x=@x.npy --input y=@y.bin:u16 "
     "--json=/no/such/log",
     "--json /no/such/log: cannot be created"},
    {"SaveEveryAlone", "@step.so --weights=@w.pt2 --save-every=2",
     "--save-every: expected --save-dir, too"},
    {"KeepAlone", "@step.so --weights=@w.pt2 --keep=2",
     "--keep: expected --save-dir, too"},
    {"KeepNone", "@step.so --weights=@w.pt2 --save-dir=@run --keep=0",
     "--keep: Value 0 not in range"},
    {"SaveEveryNone", "@step.so --weights=@w.pt2 --save-dir=@r --save-every=0",
     "--save-every: Value 0 not in range"},
    {"OnNonfiniteUnknown", "@step.so --weights=@w.pt2 --on-nonfinite=maybe",
     "--on-nonfinite: maybe not in {continue,skip,stop}"},
    {"ScheduleUnknown", "@step.so --weights=@w.pt2 --schedule=cosin,steps=3",
     "--schedule: unknown schedule 'cosin'; expected 'constant', 'linear', "
     "'cosine' or 'wsd'"},
    {"ScheduleEmpty", "@step.so --weights=@w.pt2 --schedule=", "--schedule: "},
    {"ScheduleWithoutSteps", "@step.so --weights=@w.pt2 --schedule=cosine",
     "--schedule: schedule 'cosine' needs 'steps'"},
    {"LearningRateNegative", "@step.so --weights=@w.pt2 --lr=-1",
     "--lr: expected a finite rate of at least 0, got -1.0"},
    {"LearningRateNan", "@step.so --weights=@w.pt2 --lr=nan",
     "--lr: expected a finite rate of at least 0, got nan"},
    {"LearningRateNoNumber", "@step.so --weights=@w.pt2 --lr=fast",
     "Could not convert: --lr = fast"},
    {"ResumeAlone", "--resume @step.so --weights=@w.pt2",
     "--resume without a path: expected --save-dir, too"},
    {"ResumeFromNothing",
     "@step.so --resume=@none --input x=@x.npy --input y=@y.bin:u16 "
     "--json=@log",
     "none: expected a complete checkpoint, got none"},
    {"ResumeFromAFile",
     "@step.so --resume=@w.pt2 --input x=@x.npy --input y=@y.bin:u16",
     "w.pt2: expected a checkpoint, or a folder of checkpoints, got a file"},
    {"SaveDirIsAFile",
     "@step.so --weights=@w.pt2 --input x=@x.npy --input y=@y.bin:u16 "
     "--json=@log --save-dir=@w.pt2",
     "w.pt2: cannot be"},
    {"ParamsUnwritable",
     "@step.so --weights=@w.pt2 --input x=@x.npy --input y=@y.bin:u16 "
     "--params-out=/no/such/file",
     "--params-out /no/such/file: cannot write to /no/such"},
};

INSTANTIATE_TEST_SUITE_P(Run, BadCommandTest, ::testing::ValuesIn(kBadCommands),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

// Most machines have no GPU, and most libtorch here no part for one. All ranks
// end, and one of them says why.
TEST_F(RunTest, AGpuThatIsMissingIsAnError) {
  FakeStep step = linearStep(2, 2, 1);
  step.plan["target"] = "cuda";
  Outcome outcome =
      execute(command(step.build(folder), "--nodes 2 --ranks-per-node 2"));
  if (outcome.exitCode == 0)
    GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_EQ(count(outcome.output, "error:"), 1u) << outcome.output;
  EXPECT_NE(outcome.output.find("the step was compiled for 'cuda'"),
            std::string::npos)
      << outcome.output;
}

class LongRunTest : public LongRunFixture {};

TEST_F(LongRunTest, KilledRankEndsTheJobWithItsName) {
  start("");
  std::vector<pid_t> pids = ranks();
  ASSERT_EQ(pids.size(), 4u);
  auto begin = std::chrono::steady_clock::now();
  kill(pids[2], SIGKILL);
  EXPECT_EQ(waitForEnd(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(count(output(), "error:"), 1u);
  EXPECT_NE(output().find("error: rank 2 was killed by signal 9"),
            std::string::npos)
      << output().substr(output().size() - 500);
  // The log has all steps that were printed.
  EXPECT_GE(readLog("log").size(), 3u);
  for (pid_t pid : pids)
    EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(RunTest, ClosedOutputEndsTheJob) {
  std::string object = linearStep(2, 2, 1).build(folder);
  execute(command(object, "--steps=10000000") + " 2> " + folder.file("errors") +
          " | head -n 1");
  std::ifstream file(folder.file("errors"));
  std::string errors{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(count(errors, "error:"), 1u) << errors;
  EXPECT_NE(errors.find("standard output cannot be written"), std::string::npos)
      << errors;
}

TEST_F(LongRunTest, InterruptEndsAll) {
  start("");
  std::vector<pid_t> pids = ranks();
  kill(launcher, SIGINT);
  EXPECT_EQ(waitForEnd(), 130);
  for (pid_t pid : pids)
    EXPECT_NE(kill(pid, 0), 0);
  EXPECT_GE(readLog("log").size(), 3u);
}

TEST_F(LongRunTest, TheLogCanBeReadWhileTheRunGoesOn) {
  start("");
  EXPECT_GE(readLog("log").size(), 3u);
  kill(launcher, SIGKILL);
  waitForEnd();
  std::vector<Json> log = readLog("log");
  for (size_t i = 0; i < log.size(); ++i)
    EXPECT_EQ(log[i]["step"], i + 1);
}

TEST_F(LongRunTest, SigtermSavesAndEnds) {
  start("--save-dir=" + folder.file("run"));
  kill(launcher, SIGTERM);
  EXPECT_EQ(waitForEnd(), 143) << output();
  EXPECT_EQ(count(output(), "error:"), 0u) << output();
  EXPECT_EQ(count(output(), "stopped by a signal after step"), 1u) << output();
  std::string step = std::to_string(readLog("log").back()["step"].get<int>());
  step.insert(0, 8 - step.size(), '0');
  EXPECT_TRUE(
      std::filesystem::exists(folder.file("run/step-" + step + "/index.json")));
}

// As a launcher like torchrun does, which signals each rank.
TEST_F(LongRunTest, ASignalToOneRankEndsAll) {
  start("--save-dir=" + folder.file("run"));
  std::vector<pid_t> pids = ranks();
  ASSERT_EQ(pids.size(), 4u);
  kill(pids[3], SIGTERM);
  EXPECT_EQ(waitForEnd(), 143) << output();
  EXPECT_EQ(count(output(), "error:"), 0u) << output();
}

TEST_F(LongRunTest, InterruptSavesAndEnds) {
  start("--save-dir=" + folder.file("run"));
  kill(launcher, SIGINT);
  EXPECT_EQ(waitForEnd(), 130) << output();
  EXPECT_EQ(std::distance(
                std::filesystem::directory_iterator(folder.file("run")), {}),
            1);
}

TEST_F(LongRunTest, RanksEndWithTheirLauncher) {
  start("");
  std::vector<pid_t> pids = ranks();
  kill(launcher, SIGKILL);
  waitForEnd();
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  auto gone = [](pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string id, name, state;
    return !(status >> id >> name >> state) || state == "Z";
  };
  for (pid_t pid : pids)
    while (!gone(pid)) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      usleep(10000);
    }
}

} // namespace
