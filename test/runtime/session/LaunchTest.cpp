// SPDX-License-Identifier: Apache-2.0
#include "job/Launch.h"
#include "Options.h"
#include "job/JobSetup.h"
#include "output/StepText.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

using namespace fcdp;
using namespace fcdp::run;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Launch> detect(const Variables &variables,
                             bool ignoreSlurm = false) {
  return detectLaunch(
      [&](const std::string &name) -> std::optional<std::string> {
        auto found = variables.find(name);
        if (found == variables.end())
          return std::nullopt;
        return found->second;
      },
      ignoreSlurm);
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "host"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

// Its launcher's agent, or the program, listens on MASTER_PORT.
TEST(LaunchTest, TheOnlyRankLeavesTheLaunchersPortAlone) {
  Variables variables = kTorchrun;
  for (const char *name : {"RANK", "LOCAL_RANK", "GROUP_RANK"})
    variables[name] = "0";
  for (const char *name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"})
    variables[name] = "1";
  for (const char *agent : {"True", "False"}) {
    variables["TORCHELASTIC_USE_AGENT_STORE"] = agent;
    JobOptions job = makeJobOptions(*detect(variables), std::nullopt, "");
    EXPECT_TRUE(job.servesStore);
    EXPECT_EQ(job.port, 0);
    EXPECT_EQ(job.host, "127.0.0.1");
  }
  JobOptions ofMany = makeJobOptions(*detect(kTorchrun), std::nullopt, "");
  EXPECT_FALSE(ofMany.servesStore);
  EXPECT_EQ(ofMany.port, 29500);
}

TEST(LaunchTest, NoLauncher) { EXPECT_FALSE(detect({{"PATH", "/bin"}})); }

TEST(LaunchTest, Torchrun) {
  auto launch = detect(kTorchrun);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "torchrun");
  EXPECT_EQ(launch->mesh.nodes, 2u);
  EXPECT_EQ(launch->mesh.locals, 2u);
  EXPECT_EQ(launch->place, (Place{1, 1}));
  EXPECT_EQ(launch->rank, 3u);
  EXPECT_EQ(launch->masterHost, "host");
  EXPECT_EQ(launch->masterPort, 29500);
  EXPECT_EQ(launch->restartCount, 2u);
  EXPECT_FALSE(launch->servesStore);
}

TEST(LaunchTest, TorchrunWithoutAnAgentsStore) {
  Variables variables = kTorchrun;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_FALSE(detect(variables)->servesStore);
  variables["RANK"] = "0";
  EXPECT_TRUE(detect(variables)->servesStore);
}

TEST(LaunchTest, SecretsOfJobs) {
  Variables variables = kTorchrun;
  EXPECT_EQ(detect(variables)->secret, "");
  variables["TORCHELASTIC_RUN_ID"] = "run 7";
  EXPECT_EQ(detect(variables)->secret, "run 7");
  variables["FCDP_JOB_KEY"] = "sixteen letters!";
  EXPECT_EQ(detect(variables)->secret, "sixteen letters!");
  variables["FCDP_JOB_KEY"] = "too short";
  EXPECT_THROW(detect(variables), std::runtime_error);
}

TEST(LaunchTest, OneMachineIsNotReachedFromOthers) {
  Variables variables = kTorchrun;
  for (const auto &[name, value] :
       Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"GROUP_RANK", "0"}})
    variables[name] = value;
  // The agent's store is where the launcher says.
  EXPECT_EQ(detect(variables)->masterHost, "host");
  variables.erase("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_EQ(detect(variables)->masterHost, "127.0.0.1");
}

TEST(LaunchTest, IncompleteVariables) {
  Variables variables = kTorchrun;
  variables.erase("GROUP_RANK");
  EXPECT_THROW(detect(variables), std::runtime_error);
  variables = kTorchrun;
  variables["LOCAL_RANK"] = "x";
  EXPECT_THROW(detect(variables), std::runtime_error);
  variables = kTorchrun;
  variables["LOCAL_WORLD_SIZE"] = "3";
  EXPECT_THROW(detect(variables), std::runtime_error);
  variables["LOCAL_WORLD_SIZE"] = "0";
  EXPECT_THROW(detect(variables), std::runtime_error);
}

std::string problem(Variables variables, const std::string &name,
                    const std::string &value) {
  variables[name] = value;
  try {
    detect(variables);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

TEST(LaunchTest, VariablesThatDoNotFit) {
  EXPECT_EQ(problem(kTorchrun, "RANK", "4"),
            "launched by torchrun: RANK: expected a number below the 4 ranks "
            "of WORLD_SIZE, got 4");
  EXPECT_EQ(problem(kTorchrun, "LOCAL_RANK", "2"),
            "launched by torchrun: LOCAL_RANK: expected a number below the 2 "
            "ranks of LOCAL_WORLD_SIZE, got 2");
  EXPECT_EQ(problem(kTorchrun, "GROUP_RANK", "2"),
            "launched by torchrun: GROUP_RANK: expected a number below the 2 "
            "nodes, which are WORLD_SIZE / LOCAL_WORLD_SIZE, got 2");
  EXPECT_EQ(problem(kTorchrun, "MASTER_PORT", "99999"),
            "launched by torchrun: MASTER_PORT: expected a port of at most "
            "65535, got 99999");
  EXPECT_EQ(problem(kTorchrun, "MASTER_PORT", "65535"), "");
}

TEST(LaunchTest, OpenMpiOnOneHost) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"OMPI_MCA_ess_base_jobid", "1508048897"}};
  auto launch = detect(variables);
  EXPECT_EQ(launch->mesh.nodes, 1u);
  EXPECT_EQ(launch->place, (Place{0, 1}));
  EXPECT_EQ(launch->masterHost, "127.0.0.1");
  uint16_t port = launch->masterPort;
  EXPECT_GE(port, 20000);
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(detect(variables)->masterPort, port);
  EXPECT_TRUE(detect(variables)->servesStore);
  variables["OMPI_MCA_ess_base_jobid"] = "1508114433";
  EXPECT_NE(detect(variables)->masterPort, port);
  EXPECT_EQ(detect(variables)->secret, "1508114433");
}

TEST(LaunchTest, OpenMpiOnSeveralHosts) {
  Variables variables = {
      {"OMPI_COMM_WORLD_RANK", "3"},
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"OMPI_MCA_orte_local_daemon_uri", "1508048896.1;tcp://10.0.0.2:4000"}};
  EXPECT_THROW(detect(variables), std::runtime_error); // no MASTER_ADDR
  variables["MASTER_ADDR"] = "a";
  variables["MASTER_PORT"] = "1234";
  EXPECT_EQ(detect(variables)->place, (Place{1, 1}));
  EXPECT_EQ(detect(variables)->masterPort, 1234);
}

TEST(LaunchTest, Slurm) {
  Variables variables = {
      {"SLURM_PROCID", "2"},         {"SLURM_LOCALID", "0"},
      {"SLURM_NODEID", "1"},         {"SLURM_STEP_NUM_TASKS", "4"},
      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "gpu[07-08]"},
      {"SLURM_JOB_ID", "12"},        {"SLURM_STEP_ID", "0"}};
  auto launch = detect(variables);
  EXPECT_EQ(launch->mesh.locals, 2u);
  EXPECT_EQ(launch->place, (Place{1, 0}));
  EXPECT_EQ(launch->masterHost, "gpu07");
  EXPECT_FALSE(detect(variables, /*ignoreSlurm=*/true));
  variables["SLURM_STEP_NODELIST"] = "a,b";
  EXPECT_EQ(detect(variables)->masterHost, "a");
  // A shell in an allocation, not started by srun.
  variables.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_FALSE(detect(variables));
}

std::optional<Options> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "fcdp-run");
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  return parseOptions(words.size(), argv.data());
}

TEST(OptionsTest, ReadsAll) {
  auto options =
      parse({"--input", "a=x.npy", "s.so", "--weights=w.pt2", "--steps", "3",
             "--input", "b=t:u16+1", "--nodes", "2", "--ranks-per-node=4",
             "--json", "j", "--params-out=p", "--seed=9", "--threads", "2"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->step, "s.so");
  EXPECT_EQ(options->steps, 3);
  ASSERT_EQ(options->inputs.size(), 2u);
  EXPECT_EQ(options->inputs[1].name, "b");
  EXPECT_EQ(options->inputs[1].spec, "t:u16+1");
  EXPECT_EQ(options->nodes, 2u);
  EXPECT_EQ(options->ranksPerNode, 4u);
  EXPECT_EQ(options->seed, 9u);
  EXPECT_EQ(options->threads, 2);
}

// The launcher of all ranks adds its own count to the user's words.
TEST(OptionsTest, LastThreadsCount) {
  auto options = parse({"s.so", "--weights=w", "--threads=1", "--threads=2"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->threads, 2);
}

TEST(OptionsTest, Refusals) {
  EXPECT_THROW(parse({}), std::runtime_error);
  EXPECT_THROW(parse({"s.so"}), std::runtime_error);
  EXPECT_THROW(parse({"s.so", "--weights=w", "--steps=-1"}),
               std::runtime_error);
  EXPECT_THROW(parse({"s.so", "--weights=w", "--steps=x"}), std::runtime_error);
  EXPECT_THROW(parse({"s.so", "--weights=w", "--wat"}), std::runtime_error);
  EXPECT_THROW(parse({"s.so", "--weights=w", "--input", "a"}),
               std::runtime_error);
  EXPECT_THROW(parse({"s.so", "--weights=w", "--nodes=-1"}),
               std::runtime_error);
}

// Without steps the model is evaluated, and nothing is saved or traced.
TEST(OptionsTest, NoSteps) {
  auto options = parse({"s.so", "--weights=w", "--steps=0"});
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->evaluation.isAlone);
  for (const char *needsSteps : {"--trace=t.json", "--save-dir=run",
                                 "--eval-every=1", "--profile=p.json"})
    EXPECT_THROW(parse({"s.so", "--weights=w", "--steps=0", needsSteps}),
                 std::runtime_error)
        << needsSteps;
}

TEST(OptionsTest, ATimeoutIsANumber) {
  try {
    parse({"s.so", "--weights=w", "--timeout=nan"});
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "--timeout: expected 1 to 1e6 seconds, got NaN");
  }
}

TEST(OptionsTest, RefusalsNameTheOption) {
  for (const char *option : {"--timeout=0", "--log-every=0", "--log-every=x"}) {
    std::string name = std::string(option).substr(0, 5);
    try {
      parse({"s.so", "--weights=w", option});
      FAIL() << option;
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW(parse({"--probe-cluster=c.yaml", "--tensorboard=t"}),
               std::runtime_error);
}

TEST(OptionsTest, Help) {
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"--help"}));
  EXPECT_NE(testing::internal::GetCapturedStdout().find("Example"),
            std::string::npos);
}

TEST(StepStatsTest, CombinesRanks) {
  std::vector<RankStats> ranks(4);
  for (int r = 0; r < 4; ++r) {
    ranks[r].losses = {double(r), double(r + 1)};
    ranks[r].linkBytes[LinkId::Inter] = 10 * (r + 1);
    ranks[r].devicePeakBytes = 100 - r;
    ranks[r].seconds = r;
    ranks[r].systemAllocations = 1;
    ranks[r].gradientNorm = 0.5;
    ranks[r].exposedSeconds = r == 1 ? 4 : 0;
    EXPECT_EQ(RankStats::unpack(ranks[r].pack()).losses, ranks[r].losses);
    EXPECT_EQ(RankStats::unpack(ranks[r].pack()).linkBytes[LinkId::Inter],
              ranks[r].linkBytes[LinkId::Inter]);
  }
  StepStats stats = combine({2, 2}, ranks);
  EXPECT_EQ(stats.loss, 2);
  EXPECT_EQ(stats.linkBytes[LinkId::Inter], 70);
  EXPECT_EQ(stats.devicePeakBytes, 100);
  EXPECT_EQ(stats.seconds, 3);
  EXPECT_EQ(stats.systemAllocations, 4);
  EXPECT_EQ(stats.gradientNorm, 0.5);
  EXPECT_EQ(stats.exposedSeconds, 4);
  for (RankStats &rank : ranks)
    rank.gradientNorm = rank.exposedSeconds = RankStats::kUnknown;
  EXPECT_FALSE(combine({2, 2}, ranks).gradientNorm);
  EXPECT_FALSE(combine({2, 2}, ranks).exposedSeconds);
  stats.step = 5;
  auto json = nlohmann::json::parse(toJson(StepFigures{stats}));
  EXPECT_EQ(json["step"], 5);
  EXPECT_EQ(json["inter_bytes_sent"], 70);
}

std::vector<RankStats> weightedRanks() {
  std::vector<RankStats> ranks(2);
  ranks[0].losses = {1, 2};
  ranks[0].weights = {3, 0};
  ranks[1].losses = {5, 7};
  ranks[1].weights = {4, 1};
  ranks[0].next.weight = 6;
  ranks[1].next.weight = 2.5;
  return ranks;
}

TEST(StepStatsTest, WeightsLosses) {
  std::vector<RankStats> ranks;
  for (const RankStats &own : weightedRanks())
    ranks.push_back(RankStats::unpack(own.pack()));
  EXPECT_EQ(ranks[1].losses, (std::vector<double>{5, 7}));
  EXPECT_EQ(ranks[1].weights, (std::vector<double>{4, 1}));
  StepStats stats = combine({1, 2}, ranks);
  EXPECT_DOUBLE_EQ(stats.loss, (3 * 1 + 4 * 5 + 1 * 7) / 8.0);
  EXPECT_EQ(stats.weight, 8);
  EXPECT_EQ(stats.next.weight, 8.5);
  stats.step = 5;
  auto json = nlohmann::json::parse(toJson(StepFigures{stats}));
  EXPECT_EQ(json["loss_weight"], 8);
  EXPECT_NE(toText(StepFigures{stats}).find("  weight 8"), std::string::npos);
}

TEST(StepStatsTest, EqualWeightsGiveTheMeanExactly) {
  std::vector<RankStats> ranks(2);
  ranks[0].losses = {0.1, 0.7};
  ranks[1].losses = {0.3, 1e-7};
  double mean = combine({1, 2}, ranks).loss;
  for (RankStats &rank : ranks)
    rank.weights = {17, 17};
  EXPECT_EQ(combine({1, 2}, ranks).loss, mean);
}

TEST(StepStatsTest, WithoutAnyWeightTheLossIsZero) {
  std::vector<RankStats> ranks = weightedRanks();
  for (RankStats &rank : ranks)
    rank.weights = {0, 0};
  StepStats stats = combine({1, 2}, ranks);
  EXPECT_EQ(stats.loss, 0);
  EXPECT_EQ(stats.weight, 0);
}

} // namespace
