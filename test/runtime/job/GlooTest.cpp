// SPDX-License-Identifier: Apache-2.0
//
// Runs jobs of several processes over Gloo on this machine. The processes are
// gloo-rank; this program does not use torch.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

// The exit codes of gloo-rank.
enum ExitCode { ok, wrong, refused, explained, toldByMonitor, failedItself };

/// The process of a rank, and its output.
struct Process {
  pid_t pid = -1;
  FILE *output = nullptr;
  int status = 0;
  std::string lines;

  void start(const std::vector<std::string> &arguments);
  std::string readLine();
  void finish();
  int code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
};

void Process::start(const std::vector<std::string> &arguments) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  std::vector<char *> argv{const_cast<char *>(FCDP_GLOO_RANK)};
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execv(FCDP_GLOO_RANK, argv.data());
    _exit(127);
  }
  close(ends[1]);
  output = fdopen(ends[0], "r");
}

std::string Process::readLine() {
  char line[4096];
  return fgets(line, sizeof(line), output) ? line : "";
}

void Process::finish() {
  for (std::string line = readLine(); !line.empty(); line = readLine())
    lines += line;
  fclose(output);
  waitpid(pid, &status, 0);
}

struct Job {
  Job(const std::string &scenario, uint32_t nodes, uint32_t locals,
      int victim = -1, const std::vector<uint32_t> &absent = {})
      : ranks(nodes * locals) {
    std::string port = "0";
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      if (std::count(absent.begin(), absent.end(), rank))
        continue;
      ranks[rank].start({scenario, std::to_string(nodes),
                         std::to_string(locals), std::to_string(rank / locals),
                         std::to_string(rank % locals), port,
                         std::to_string(victim)});
      if (rank == 0) {
        std::string line = ranks[0].readLine();
        EXPECT_EQ(line.rfind("port ", 0), 0u) << line;
        port = std::to_string(atoi(line.c_str() + 5));
      }
    }
  }
  /// Waits for all ranks but `stopped`, which is then killed. Returns the
  /// seconds since rank `first` ended, if it is given.
  double finish(int stopped = -1, int first = -1) {
    if (first >= 0)
      ranks[first].finish();
    Clock::time_point start = Clock::now();
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (int(rank) != stopped && int(rank) != first && ranks[rank].pid > 0)
        ranks[rank].finish();
    double seconds =
        std::chrono::duration<double>(Clock::now() - start).count();
    if (stopped >= 0) {
      kill(ranks[stopped].pid, SIGKILL);
      ranks[stopped].finish();
    }
    return seconds;
  }

  std::vector<Process> ranks;
};

/// Checks that every survivor ends in time and names the victim first.
void expectNamed(const Job &job, int victim, const std::string &start,
                 double seconds) {
  EXPECT_LT(seconds, 15);
  for (int rank = 0; rank < int(job.ranks.size()); ++rank) {
    if (rank == victim)
      continue;
    const Process &process = job.ranks[rank];
    EXPECT_TRUE(process.code() == explained || process.code() == toldByMonitor)
        << "rank " << rank << " ended with " << process.status;
    EXPECT_EQ(process.lines.rfind(start, 0), 0u)
        << "rank " << rank << " printed: " << process.lines;
  }
}

} // namespace

TEST(Gloo, CollectivesAreRightOnAllMeshes) {
  const uint32_t meshes[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 2}};
  for (auto [nodes, locals] : meshes) {
    Job job("collectives", nodes, locals);
    job.finish();
    for (const Process &process : job.ranks)
      EXPECT_EQ(process.code(), ok)
          << nodes << "x" << locals << ": " << process.lines;
  }
}

TEST(Gloo, AKilledRankIsNamedInTime) {
  Job job("kill", 2, 2, 2);
  double seconds = job.finish(-1, 2);
  expectNamed(job, 2, "rank 2 (node 1, local 0) stopped: its process", seconds);
}

TEST(Gloo, AKilledRankIsNamedWhereNobodyCommunicates) {
  Job job("kill-compute", 2, 2, 3);
  double seconds = job.finish(-1, 3);
  expectNamed(job, 3, "rank 3 (node 1, local 1) stopped: its process", seconds);
}

TEST(Gloo, AStoppedRankIsNamedInTime) {
  Job job("stop", 2, 2, 1);
  double seconds = job.finish(1);
  expectNamed(job, 1, "rank 1 (node 0, local 1) stopped: no heartbeat",
              seconds);
}

TEST(Gloo, AKilledHolderOfTheStoreIsNamed) {
  Job job("kill", 2, 2, 0);
  double seconds = job.finish();
  expectNamed(job, 0, "rank 0 (node 0, local 0), which holds the store at",
              seconds);
}

TEST(Gloo, AFailedRanksOwnWordsReachTheOthers) {
  for (int victim : {0, 3}) {
    Job job("fail", 2, 2, victim);
    double seconds = job.finish();
    EXPECT_EQ(job.ranks[victim].code(), failedItself);
    std::string who =
        victim == 0 ? "rank 0 (node 0, local 0)" : "rank 3 (node 1, local 1)";
    expectNamed(job, victim, who + " failed: input 'ids' is out of range",
                seconds);
  }
}

TEST(Gloo, AnotherPlanIsRefused) {
  Job job("wrong-hash", 2, 1);
  job.finish();
  for (const Process &process : job.ranks) {
    EXPECT_EQ(process.code(), refused);
    EXPECT_NE(process.lines.find("the ranks differ in the plan's hash"),
              std::string::npos)
        << process.lines;
    EXPECT_NE(process.lines.find("launcher rank 1"), std::string::npos);
  }
}

TEST(Gloo, TwoRanksInOnePlaceAreRefused) {
  Job job("wrong-mesh", 2, 1);
  job.finish();
  for (const Process &process : job.ranks) {
    EXPECT_EQ(process.code(), refused);
    EXPECT_NE(process.lines.find("are both at (node 0, local 0)"),
              std::string::npos)
        << process.lines;
  }
}

TEST(Gloo, APortInUseIsNamed) {
  int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr *>(&address), length), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  getsockname(taken, reinterpret_cast<sockaddr *>(&address), &length);
  std::string port = std::to_string(ntohs(address.sin_port));
  Process process;
  process.start({"collectives", "1", "1", "0", "0", port});
  process.finish();
  close(taken);
  EXPECT_EQ(process.code(), refused);
  EXPECT_NE(process.lines.find("port " + port + " is in use"),
            std::string::npos)
      << process.lines;
}
