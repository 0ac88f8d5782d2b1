// SPDX-License-Identifier: Apache-2.0
#include "Spawn.h"

#include "ErrorLines.h"
#include "Progress.h"
#include "StoreServer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace fcdp::run {

namespace {

using Clock = std::chrono::steady_clock;

/// The ranks' own monitors find a dead rank within ten seconds; what has not
/// ended by then is asked to, and then made to, all within half a minute.
constexpr std::chrono::seconds kOwnEnd(18), kAskedEnd(5);
constexpr int kInterrupted = 130;

[[noreturn]] void failCall(const char *call) {
  throw std::runtime_error(std::string(call) +
                           " failed: " + std::strerror(errno));
}

/// Environment and its form for execve.
class ChildEnvironment {
public:
  ChildEnvironment() {
    for (char **entry = environ; *entry; ++entry)
      entries.emplace_back(*entry);
  }
  void set(const std::string &name, const std::string &value) {
    std::erase_if(entries, [&](const std::string &entry) {
      return entry.starts_with(name + "=");
    });
    entries.push_back(name + "=" + value);
  }
  std::vector<char *> pointers() {
    std::vector<char *> list;
    for (std::string &entry : entries)
      list.push_back(entry.data());
    list.push_back(nullptr);
    return list;
  }

private:
  std::vector<std::string> entries;
};

ChildEnvironment environmentOf(const Mesh &mesh, uint32_t rank, int threads,
                               uint16_t port) {
  Place place = placeOf(mesh, rank);
  ChildEnvironment environment;
  environment.set("RANK", std::to_string(rank));
  environment.set("WORLD_SIZE", std::to_string(mesh.size()));
  environment.set("LOCAL_RANK", std::to_string(place.local));
  environment.set("LOCAL_WORLD_SIZE", std::to_string(mesh.locals));
  environment.set("GROUP_RANK", std::to_string(place.node));
  environment.set("MASTER_ADDR", "127.0.0.1");
  environment.set("MASTER_PORT", std::to_string(port));
  environment.set("TORCHELASTIC_USE_AGENT_STORE", "True");
  environment.set("TORCHELASTIC_RESTART_COUNT", "0");
  environment.set("OMP_NUM_THREADS", std::to_string(threads));
  environment.set(kTerminalVariable, isatty(STDERR_FILENO) ? "1" : "0");
  return environment;
}

sigset_t watchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP})
    sigaddset(&signals, number);
  return signals;
}

struct Child {
  uint32_t rank;
  pid_t pid = -1;
  int errors = -1; ///< reading end of its standard error
  std::string rest;
  bool hasEnded = false;
};

/// Becomes the rank; between fork and exec, so only calls that are safe there.
[[noreturn]] void becomeRank(char **argv, char **environment, int errors,
                             pid_t parent, const sigset_t &signals) {
  // Does not live longer than its parent, however that ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(EXIT_FAILURE);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  dup2(errors, STDERR_FILENO);
  execve("/proc/self/exe", argv, environment);
  _exit(EXIT_FAILURE);
}

/// The ranks of a job from start to end. Used by one thread.
class Ranks {
public:
  Ranks(const sigset_t &signals, int signalDescriptor)
      : signals(signals), signalDescriptor(signalDescriptor) {}
  ~Ranks();

  void start(uint32_t rank, char **argv, ChildEnvironment environment);
  /// Returns the exit code when all have ended.
  int wait();

private:
  bool anyRuns() const;
  void signalAll(int number);
  void readSignals();
  void reap();
  void judge(const Child &child, int status);
  void fail(Clock::duration grace);
  void hurry();
  void pollOnce();
  void readErrors(Child &child);

  const sigset_t &signals;
  int signalDescriptor;
  std::vector<Child> children;
  ErrorLines errorLines;
  /// What to say of a rank that failed if none has said anything.
  std::string lastResort;
  int exitCode = 0;
  /// When to send the next, harder signal.
  Clock::time_point deadline = Clock::time_point::max();
  int nextSignal = SIGTERM;
};

Ranks::~Ranks() {
  signalAll(SIGKILL);
  for (Child &child : children) {
    if (!child.hasEnded)
      waitpid(child.pid, nullptr, 0);
    if (child.errors >= 0)
      close(child.errors);
  }
}

void Ranks::start(uint32_t rank, char **argv, ChildEnvironment environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    failCall("pipe2");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::vector<char *> pointers = environment.pointers();
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0)
    becomeRank(argv, pointers.data(), ends[1], parent, signals);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    failCall("fork");
  }
  Child child;
  child.rank = rank;
  child.pid = pid;
  child.errors = ends[0];
  children.push_back(child);
}

bool Ranks::anyRuns() const {
  return std::any_of(children.begin(), children.end(),
                     [](const Child &child) { return !child.hasEnded; });
}

void Ranks::signalAll(int number) {
  for (const Child &child : children)
    if (!child.hasEnded)
      kill(child.pid, number);
}

void Ranks::fail(Clock::duration grace) {
  if (exitCode == 0)
    exitCode = EXIT_FAILURE;
  deadline = std::min(deadline, Clock::now() + grace);
}

void Ranks::judge(const Child &child, int status) {
  std::string rank = "rank " + std::to_string(child.rank);
  if (WIFSIGNALED(status)) {
    if (exitCode == 0)
      errorLines.print(rank + " was killed by signal " +
                       std::to_string(WTERMSIG(status)) + " (" +
                       strsignal(WTERMSIG(status)) + ")");
    fail(kOwnEnd);
  } else if (WEXITSTATUS(status) != 0) {
    // Most likely another rank has the message, and is about to print it.
    if (lastResort.empty())
      lastResort = rank + " ended with exit code " +
                   std::to_string(WEXITSTATUS(status)) +
                   " and without a message";
    fail(kOwnEnd);
  }
}

void Ranks::reap() {
  for (Child &child : children) {
    int status;
    if (child.hasEnded || waitpid(child.pid, &status, WNOHANG) != child.pid)
      continue;
    child.hasEnded = true;
    judge(child, status);
  }
}

void Ranks::readSignals() {
  signalfd_siginfo info;
  while (read(signalDescriptor, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD)
      continue;
    exitCode = kInterrupted;
    nextSignal = SIGTERM;
    deadline = Clock::now();
  }
}

void Ranks::hurry() {
  if (Clock::now() < deadline)
    return;
  signalAll(nextSignal);
  nextSignal = SIGKILL;
  deadline = Clock::now() + kAskedEnd;
}

void Ranks::pollOnce() {
  std::vector<pollfd> waited = {{signalDescriptor, POLLIN, 0}};
  for (Child &child : children)
    waited.push_back({child.errors, POLLIN, 0}); // -1 is left out
  constexpr int tick = 500; // milliseconds; deadlines are seconds
  poll(waited.data(), waited.size(), tick);
  readSignals();
  // Before the survivors' lines: that a rank was killed explains them.
  reap();
  for (size_t i = 0; i < children.size(); ++i)
    if (waited[i + 1].revents)
      readErrors(children[i]);
}

void Ranks::readErrors(Child &child) {
  if (child.errors < 0 || errorLines.readFrom(child.errors, child.rest))
    return;
  close(child.errors);
  child.errors = -1;
}

int Ranks::wait() {
  while (anyRuns()) {
    pollOnce();
    hurry();
  }
  for (Child &child : children)
    readErrors(child);
  if (!lastResort.empty() && exitCode != kInterrupted)
    errorLines.print(lastResort);
  return exitCode;
}

} // namespace

int spawnRanks(const Mesh &mesh, int threadsPerRank, char **argv,
               const std::vector<std::string> &temporaryFiles) {
  // Blocked before any thread starts, so that none of them takes a signal.
  sigset_t signals = watchedSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  int descriptor = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0)
    failCall("signalfd");
  StoreServer store;
  std::vector<char *> arguments;
  while (*argv)
    arguments.push_back(*argv++);
  std::string threads = "--threads=" + std::to_string(threadsPerRank);
  arguments.insert(arguments.end(), {threads.data(), nullptr});
  int exitCode;
  {
    Ranks ranks(signals, descriptor);
    for (uint32_t rank = 0; rank < mesh.size(); ++rank)
      ranks.start(rank, arguments.data(),
                  environmentOf(mesh, rank, threadsPerRank, store.port()));
    exitCode = ranks.wait();
  }
  close(descriptor);
  if (exitCode != 0)
    for (const std::string &file : temporaryFiles)
      std::remove(file.c_str());
  return exitCode;
}

} // namespace fcdp::run
