// SPDX-License-Identifier: Apache-2.0
//
// Runs jobs of several processes on GPUs with the real libraries, or skips the
// tests if there is no GPU. A job of one rank also runs over the fakes, and one
// of four on the emulated device, if that is built. The processes are
// cuda-rank; this program does not use torch.

#include "GpuTest.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

// The exit codes of cuda-rank.
enum ExitCode { ok, wrong, refused, explained, toldByMonitor };

struct Process {
  pid_t pid = -1;
  FILE *output = nullptr;
  std::string lines;
  int status = 0;

  void start(std::vector<std::string> arguments) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), FCDP_CUDA_RANK);
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid = fork();
    if (pid == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(FCDP_CUDA_RANK, argv.data());
      _exit(127);
    }
    close(ends[1]);
    output = fdopen(ends[0], "r");
  }
  std::string readLine() {
    char line[4096];
    return fgets(line, sizeof(line), output) ? line : "";
  }
  void finish() {
    for (std::string line = readLine(); !line.empty(); line = readLine())
      lines += line;
    fclose(output);
    waitpid(pid, &status, 0);
  }
  int code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
};

std::vector<Process> runJob(const std::string &scenario, uint32_t nodes,
                            uint32_t locals, const std::string &cudart,
                            const std::string &nccl) {
  std::vector<Process> ranks(nodes * locals);
  std::string port = "0";
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].start({scenario, std::to_string(nodes), std::to_string(locals),
                       std::to_string(rank / locals),
                       std::to_string(rank % locals), port, cudart, nccl});
    if (rank == 0)
      port = std::to_string(std::atoi(ranks[0].readLine().c_str() + 5));
  }
  for (Process &rank : ranks)
    rank.finish();
  return ranks;
}

void expectOk(const std::vector<Process> &ranks) {
  for (const Process &rank : ranks)
    EXPECT_EQ(rank.code(), ok) << rank.lines;
}

} // namespace

TEST(CudaJob, OneRankOverTheFakes) {
  expectOk(runJob("collectives", 1, 1, FCDP_FAKE_CUDART, FCDP_FAKE_NCCL));
}

TEST(CudaJob, ALibraryThatIsMissingEndsTheJobWithItsName) {
  auto ranks = runJob("collectives", 1, 1, "/nowhere/libcudart.so.13", "");
  EXPECT_EQ(ranks[0].code(), refused);
  EXPECT_NE(ranks[0].lines.find("the CUDA runtime library is not found"),
            std::string::npos)
      << ranks[0].lines;
}

TEST(CudaJob, CollectivesBetweenProcesses) {
  FCDP_REQUIRE_GPU();
  for (auto [nodes, locals] : {std::pair{1u, 1u}, {2u, 1u}, {1u, 2u}, {2u, 2u}})
    expectOk(runJob("collectives", nodes, locals, "",
                    fcdp::realLibrary(FCDP_REAL_NCCL)));
}

#ifdef FCDP_EMULATED_NCCL
TEST(CudaJob, FourFullStreamsOnTheEmulatedDevice) {
  expectOk(runJob("saturate", 2, 2, FCDP_EMULATED_CUDART, FCDP_EMULATED_NCCL));
}
#endif

TEST(CudaJob, FourFullStreams) {
  FCDP_REQUIRE_GPU();
  expectOk(runJob("saturate", 2, 2, "", fcdp::realLibrary(FCDP_REAL_NCCL)));
}

TEST(CudaJob, ARankThatIsKilledIsNamed) {
  FCDP_REQUIRE_GPU();
  auto ranks = runJob("kill", 1, 3, "", fcdp::realLibrary(FCDP_REAL_NCCL));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(ranks[rank].code() == explained ||
                ranks[rank].code() == toldByMonitor)
        << ranks[rank].code();
    EXPECT_NE(ranks[rank].lines.find("rank 2 (node 0, local 2)"),
              std::string::npos)
        << ranks[rank].lines;
  }
}
