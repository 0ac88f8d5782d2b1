// SPDX-License-Identifier: Apache-2.0
#include "launch/Spawn.h"

#include "core/FileDescriptor.h"
#include "core/Thread.h"
#include "launch/ErrorLines.h"
#include "launch/StopSignals.h"
#include "output/Failure.h"
#include "output/Progress.h"
#include "store/Secret.h"
#include "store/StoreServer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fcdp::run {

namespace {

using Clock = std::chrono::steady_clock;

/// The time for ranks to end by themselves, and after a request. The ranks' own
/// monitors find a dead rank within ten seconds. Ranks that have not ended by
/// then are asked to end, and then killed, all within half a minute.
constexpr std::chrono::seconds kOwnEnd(18), kAskedEnd(5);

/// Returns whether a run ends with this code because of a signal.
bool isStopped(int exitCode) {
  return exitCode == exitCodeOf(SIGTERM) || exitCode == exitCodeOf(SIGINT);
}

[[noreturn]] void failCall(const char *call) {
  throw std::runtime_error(std::string(call) +
                           " failed: " + std::strerror(errno));
}

/// Returns whether the parent of this process made it ignore the signal, as
/// nohup does, or a shell that starts it in the background.
bool isIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

/// Returns the signals to watch. The system queues a blocked signal even if it
/// is ignored, so ignored ones are left out.
sigset_t watchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (int number : {SIGINT, SIGTERM, SIGHUP})
    if (!isIgnored(number))
      sigaddset(&signals, number);
  return signals;
}

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      failCall("pipe2");
    reader = FileDescriptor(ends[0]);
    writer = FileDescriptor(ends[1]);
  }
  FileDescriptor reader, writer;
};

/// Sends the ranks the port of the job's store. The store uses threads of the
/// launcher, so it cannot be started before the ranks are forked.
class PortAnnouncement {
public:
  void tell(uint16_t port, size_t ranks) {
    std::vector<uint16_t> ports(ranks, port);
    if (write(pipe.writer.get(), ports.data(), ranks * sizeof(port)) < 0)
      failCall("write");
  }

  /// Waits for the port. Returns none if the launcher has failed before that. A
  /// rank must call it exactly once.
  std::optional<uint16_t> hear() {
    pipe.writer = FileDescriptor();
    uint16_t port = 0;
    ssize_t got;
    do
      got = read(pipe.reader.get(), &port, sizeof(port));
    while (got < 0 && errno == EINTR);
    pipe.reader = FileDescriptor();
    return got == sizeof(port) ? std::optional(port) : std::nullopt;
  }

private:
  Pipe pipe;
};

struct Child {
  uint32_t rank;
  pid_t pid;
  FileDescriptor errors; ///< reading end of its standard error
  std::string rest;
  bool hasEnded = false;
};

/// Sets up a process that was just forked as one that a launcher has started.
void leaveLauncher(uint32_t rank, pid_t launcher, int errors,
                   const sigset_t &signals) {
  // Sets the name that `ps` and `top` show: "fcdp-run-12".
  prctl(PR_SET_NAME, (programName() + ("-" + std::to_string(rank))).c_str());
  // The process does not outlive its parent, even if that is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher)
    _exit(EXIT_FAILURE);
  setenv(kTerminalVariable, isatty(STDERR_FILENO) ? "1" : "0", /*replace=*/1);
  dup2(errors, STDERR_FILENO);
  // A terminal sends it to all processes; the launcher passes it on, once.
  std::signal(SIGINT, SIG_IGN);
  std::signal(kLaunchersSignal, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

constexpr const char *kLoopback = "127.0.0.1";

Launch launchOf(const Mesh &mesh, uint32_t rank, uint16_t port,
                const std::string &secret) {
  Launch launch;
  launch.launcher = programName();
  launch.mesh = mesh;
  launch.place = placeOf(mesh, rank);
  launch.rank = rank;
  launch.masterHost = kLoopback;
  launch.masterPort = port;
  launch.isOwnStore = true;
  launch.secret = secret;
  return launch;
}

constexpr size_t kSecretBytes = 32;

/// The ranks of a job from start to end. Used by one thread.
class Ranks {
public:
  Ranks(const sigset_t &signals, int signalDescriptor, OnSignal onSignal)
      : signals(signals), signalDescriptor(signalDescriptor),
        onSignal(onSignal) {}
  ~Ranks();

  /// The secret that the ranks prove to each other. It is in no environment or
  /// file.
  const std::string secret = randomBytes(kSecretBytes);

  /// Forks a process that runs `body`, and ends with the code that it returns.
  void start(const Mesh &mesh, uint32_t rank, PortAnnouncement &port,
             const RankBody &body);
  /// Waits until all ranks have ended, and returns the exit code.
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
  OnSignal onSignal;
  std::vector<Child> children;
  ErrorLines errorLines;
  /// The message about a failed rank, if no rank has printed one.
  std::string lastResort;
  int exitCode = 0;
  /// The exit code for the signal by which ranks were asked to end, or 0.
  int stopCode = 0;
  /// The time at which the next, harder signal is sent.
  Clock::time_point deadline = Clock::time_point::max();
  int nextSignal = kLaunchersSignal;
};

Ranks::~Ranks() {
  signalAll(SIGKILL);
  for (Child &child : children)
    if (!child.hasEnded)
      waitpid(child.pid, nullptr, 0);
}

void Ranks::start(const Mesh &mesh, uint32_t rank, PortAnnouncement &port,
                  const RankBody &body) {
  Pipe errors;
  fcntl(errors.reader.get(), F_SETFL, O_NONBLOCK);
  pid_t launcher = getpid();
  pid_t pid = fork();
  if (pid < 0 && errno == EAGAIN)
    throw std::runtime_error(noMoreThreads("rank " + std::to_string(rank)));
  if (pid < 0)
    failCall("fork");
  if (pid == 0) {
    leaveLauncher(rank, launcher, errors.writer.get(), signals);
    // The launcher's children are not children of this process.
    children.clear();
    close(signalDescriptor);
    errors.reader = FileDescriptor();
    errors.writer = FileDescriptor();
    std::optional<uint16_t> known = port.hear();
    endProcess(known ? body(launchOf(mesh, rank, *known, secret))
                     : EXIT_FAILURE);
  }
  children.push_back({rank, pid, std::move(errors.reader), "", false});
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
  if (WIFSIGNALED(status) && stopCode != 0 &&
      WTERMSIG(status) == kLaunchersSignal) {
    // The signal came before the rank had a handler for it.
    exitCode = exitCode == 0 ? stopCode : exitCode;
    fail(kOwnEnd);
  } else if (WIFSIGNALED(status)) {
    if (exitCode == 0)
      errorLines.print(rank + " was killed by signal " +
                       std::to_string(WTERMSIG(status)) + " (" +
                       strsignal(WTERMSIG(status)) + ")");
    fail(kOwnEnd);
  } else if (isStopped(WEXITSTATUS(status))) {
    if (exitCode == 0)
      exitCode = WEXITSTATUS(status);
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
    if (onSignal == OnSignal::Ask && info.ssi_signo != SIGHUP) {
      // A second signal does not wait for a checkpoint.
      onSignal = OnSignal::End;
      stopCode = exitCodeOf(int(info.ssi_signo));
      signalAll(kLaunchersSignal);
      continue;
    }
    exitCode = exitCodeOf(info.ssi_signo == SIGTERM ? SIGTERM : SIGINT);
    nextSignal = kLaunchersSignal;
    deadline = Clock::now();
  }
}

/// Returns whether a rank is stopped, as by SIGSTOP. It cannot end by itself,
/// and only one signal ends it.
static bool cannotAct(pid_t pid) {
  siginfo_t info = {};
  return waitid(P_PID, pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

void Ranks::hurry() {
  if (deadline == Clock::time_point::max())
    return;
  for (const Child &child : children)
    if (!child.hasEnded && cannotAct(child.pid))
      kill(child.pid, SIGKILL);
  if (Clock::now() < deadline)
    return;
  signalAll(nextSignal);
  nextSignal = SIGKILL;
  deadline = Clock::now() + kAskedEnd;
}

void Ranks::pollOnce() {
  std::vector<pollfd> waited = {{signalDescriptor, POLLIN, 0}};
  for (Child &child : children)
    waited.push_back({child.errors.get(), POLLIN, 0}); // -1 is left out
  constexpr int tick = 500; // milliseconds; deadlines are seconds
  poll(waited.data(), waited.size(), tick);
  readSignals();
  // This comes before the lines of the survivors, which a killed rank explains.
  reap();
  for (size_t i = 0; i < children.size(); ++i)
    if (waited[i + 1].revents)
      readErrors(children[i]);
}

void Ranks::readErrors(Child &child) {
  if (child.errors && !errorLines.readFrom(child.errors.get(), child.rest))
    child.errors = FileDescriptor();
}

int Ranks::wait() {
  while (anyRuns()) {
    pollOnce();
    hurry();
  }
  for (Child &child : children)
    readErrors(child);
  if (!lastResort.empty() && !isStopped(exitCode))
    errorLines.print(lastResort);
  // Ranks only know the signal that was passed on.
  return isStopped(exitCode) && stopCode != 0 ? stopCode : exitCode;
}

} // namespace

void endProcess(int exitCode) {
  std::fflush(nullptr);
  _exit(exitCode);
}

int spawnRanks(const Mesh &mesh, const RankBody &body,
               const std::function<void()> &cleanUp, OnSignal onSignal) {
  // Blocked before any thread starts, so that none of them takes a signal.
  sigset_t signals = watchedSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  int descriptor = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0)
    failCall("signalfd");
  std::fflush(nullptr); // otherwise each rank would print the buffered text
  int exitCode;
  {
    Ranks ranks(signals, descriptor, onSignal);
    PortAnnouncement port;
    for (uint32_t rank = 0; rank < mesh.size(); ++rank)
      ranks.start(mesh, rank, port, body);
    StoreServer store({kLoopback, ranks.secret, printWarning});
    port.tell(store.port(), mesh.size());
    exitCode = ranks.wait();
  }
  close(descriptor);
  if (exitCode != 0)
    cleanUp();
  return exitCode;
}

} // namespace fcdp::run
