// SPDX-License-Identifier: Apache-2.0
//
// Programs that break a rule of CUDA or NCCL are ended with its name, and those
// that keep it are not. Over the fakes, and on a GPU with the real libraries if
// there is one. Two ranks of NCCL are on the emulated device, if that is built.

#include "cuda/GpuTest.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp;

namespace {

struct Ended {
  int status = 0;
  std::string output;

  bool isAborted() const {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  }
  bool isFine() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

/// The parameter is true for a GPU.
class Contracts : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    if (GetParam())
      FCDP_REQUIRE_GPU();
    std::string name =
        std::filesystem::temp_directory_path() / "contracts-XXXXXX";
    folder = mkdtemp(name.data());
  }
  void TearDown() override {
    if (!folder.empty())
      std::filesystem::remove_all(folder);
  }

  std::string cudart() const { return GetParam() ? "" : FCDP_FAKE_CUDART; }
  std::string nccl() const {
    return GetParam() ? realLibrary(FCDP_REAL_NCCL) : FCDP_FAKE_NCCL;
  }
  std::string log(int rank) const {
    return folder + "/log." + std::to_string(rank);
  }

  pid_t start(std::vector<std::string> arguments, int rank,
              const char *mode = "abort") const {
    arguments.insert(arguments.begin(), FCDP_CONTRACT_CASE);
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string path = log(rank);
    pid_t pid = fork();
    if (pid == 0) {
      int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      dup2(file, STDERR_FILENO);
      dup2(file, STDOUT_FILENO);
      setenv("LD_PRELOAD", FCDP_CONTRACTS, 1);
      setenv("FCDP_CONTRACTS_DIR", folder.c_str(), 1);
      setenv("FCDP_CONTRACTS", mode, 1);
      execv(FCDP_CONTRACT_CASE, argv.data());
      _exit(127);
    }
    return pid;
  }
  Ended finish(pid_t pid, int rank) const {
    Ended ended;
    waitpid(pid, &ended.status, 0);
    std::stringstream text;
    text << std::ifstream(log(rank)).rdbuf();
    ended.output = text.str();
    return ended;
  }
  Ended run(const std::string &name, const char *mode = "abort") const {
    return finish(start({name, cudart(), nccl()}, 0, mode), 0);
  }
  void expectCaught(const std::string &name, const std::string &text) const {
    Ended ended = run(name);
    EXPECT_TRUE(ended.isAborted()) << name << ": " << ended.output;
    EXPECT_NE(ended.output.find("contracts: " + text), std::string::npos)
        << name << ": " << ended.output;
  }
  void expectFine(const std::string &name) const {
    Ended ended = run(name);
    EXPECT_TRUE(ended.isFine()) << name << ": " << ended.output;
    EXPECT_EQ(ended.output, "") << name;
  }
  /// Runs two ranks. One is caught; the other may wait for it forever.
  void expectOneOfTwoCaught(const std::string &name,
                            const std::string &text) const {
#ifdef FCDP_EMULATED_NCCL
    std::string own = GetParam() ? "" : FCDP_EMULATED_CUDART;
    std::string nccls =
        GetParam() ? realLibrary(FCDP_REAL_NCCL) : FCDP_EMULATED_NCCL;
#else
    if (!GetParam())
      GTEST_SKIP() << "there is no emulated device";
    std::string own, nccls = realLibrary(FCDP_REAL_NCCL);
#endif
    pid_t pids[2];
    for (int rank = 0; rank < 2; ++rank)
      pids[rank] =
          start({name, own, nccls, std::to_string(rank), folder + "/id"}, rank);
    siginfo_t info{};
    // One ends first, and is still there for finish.
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0 &&
           info.si_pid != pids[0] && info.si_pid != pids[1])
      ;
    int first = info.si_pid == pids[1];
    // The other one is in a call that the first one has not made. Give it no
    // chance to end by itself with another message.
    kill(pids[1 - first], SIGKILL);
    Ended caught = finish(pids[first], first);
    (void)finish(pids[1 - first], 1 - first);
    EXPECT_TRUE(caught.isAborted()) << name << ": " << caught.output;
    EXPECT_NE(caught.output.find("contracts: " + text), std::string::npos)
        << name << ": " << caught.output;
  }

  std::string folder;
};

/// Whether a call of the real library is still in progress is a matter of time.
class ContractsOverTheFakes : public Contracts {};

} // namespace

TEST_P(Contracts, CopiesUseMemoryThatIsThere) {
  expectCaught("copies-pageable", "ranges: cudaMemcpyAsync called by "
                                  "contract-case: expected device memory or "
                                  "pinned host memory of 4096 bytes");
  expectCaught("copies-beyond", "ranges: cudaMemcpyAsync");
  expectCaught("copies-freed", "ranges: cudaMemcpyAsync");
  expectFine("copies-pinned");
}

TEST_P(Contracts, HostMemoryIsUnregisteredBeforeItIsUnmapped) {
  expectCaught("unmaps-registered", "ranges: munmap");
  expectFine("unmaps-unregistered");
}

TEST_P(Contracts, MemoryInFlightIsNotFreed) {
  expectCaught("frees-in-flight", "lifetimes: cudaFree called by "
                                  "contract-case: expected no work in flight");
  expectCaught("frees-pinned-in-flight", "lifetimes: cudaFreeHost");
  expectCaught("frees-after-an-older-event", "lifetimes: cudaFree");
  expectFine("frees-after-an-event");
}

TEST_P(Contracts, AGraphIsLaunchedWithTheMemoryOfItsCapture) {
  expectCaught("launches-freed", "lifetimes: cudaGraphLaunch");
  expectFine("launches");
}

TEST_P(Contracts, CapturesAreLegal) {
  expectCaught("waits-in-capture", "capture: cudaStreamSynchronize");
  expectCaught("queries-in-capture", "capture: cudaStreamQuery");
  expectCaught("waits-for-an-outside-event", "capture: cudaStreamWaitEvent");
  expectCaught("ends-another-stream", "capture: cudaStreamEndCapture");
  expectFine("captures-well");
}

TEST_P(Contracts, CollectivesUseRegisteredMemory) {
  expectCaught("gathers-beyond-the-registration", "ranges: ncclAllGather");
  expectCaught("frees-registered", "ranges: ncclMemFree");
  expectCaught("deregisters-in-flight", "lifetimes: ncclCommDeregister");
  expectFine("gathers-well");
  expectFine("gathers-twice-blocking");
}

TEST_P(ContractsOverTheFakes, ACallEndsBeforeTheNextOne) {
  expectCaught("gathers-twice", "order: ncclAllGather");
}

TEST_P(Contracts, RanksGatherTheSame) {
  expectOneOfTwoCaught("gathers-other-sizes", "order: ncclAllGather");
}

TEST_P(Contracts, ASendMeetsAReceiveOfItsSize) {
  expectOneOfTwoCaught("sends-other-sizes", "order: nccl");
}

TEST_P(Contracts, RanksEndAfterTheSameCall) {
  expectOneOfTwoCaught("one-ends-too-early", "order: nccl");
}

TEST_P(Contracts, AReportLetsTheProgramGoOn) {
  Ended ended = run("copies-pageable", "report");
  EXPECT_TRUE(ended.isFine()) << ended.output;
  EXPECT_NE(ended.output.find("contracts: ranges: cudaMemcpyAsync"),
            std::string::npos)
      << ended.output;
}

TEST_P(Contracts, OtherSymbolsAreFoundAsBefore) {
  expectFine("looks-past-itself");
}

INSTANTIATE_TEST_SUITE_P(Fake, Contracts, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Fake, ContractsOverTheFakes, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Gpu, Contracts, testing::Values(true));
