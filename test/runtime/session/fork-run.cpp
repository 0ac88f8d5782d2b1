// SPDX-License-Identifier: Apache-2.0
//
// fork-run: fcdp-run for tests (test/e2e/forked_run.py). Each run is a process
// that forks from this one, which has loaded libtorch: that takes longer than
// most tests run. Serves the socket that is its standard input until the other
// end closes it.
//
// A request is a number of bytes (32 bits), and as many bytes with strings that
// each end with a zero: the folder to run in, files for the standard output and
// the standard error, and the command. The answer is the exit code, or minus
// the signal that ended the run (32 bits).
#include "Tool.h"
#include "launch/Spawn.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

/// Returns false at the end of the socket.
bool receive(void *bytes, size_t count) {
  auto *next = static_cast<char *>(bytes);
  while (count > 0) {
    ssize_t got = read(STDIN_FILENO, next, count);
    if (got <= 0)
      return false;
    next += got;
    count -= size_t(got);
  }
  return true;
}

void check(bool holds, const char *what) {
  if (holds)
    return;
  std::perror(what);
  _exit(EXIT_FAILURE);
}

void replace(int descriptor, const char *path) {
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  check(file >= 0 && dup2(file, descriptor) >= 0, path);
}

[[noreturn]] void runCommand(std::string request, pid_t server) {
  check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
  check(getppid() == server, "getppid");
  std::vector<char *> strings;
  for (size_t at = 0; at < request.size();
       at += std::strlen(strings.back()) + 1)
    strings.push_back(request.data() + at);
  check(strings.size() > 3, "request");
  replace(STDIN_FILENO, "/dev/null");
  replace(STDOUT_FILENO, strings[1]);
  replace(STDERR_FILENO, strings[2]);
  check(chdir(strings[0]) == 0, strings[0]);
  strings.push_back(nullptr);
  fcdp::run::endProcess(
      fcdp::run::runTool(int(strings.size()) - 4, strings.data() + 3));
}

int32_t waitFor(pid_t child) {
  int status = 0;
  check(waitpid(child, &status, 0) == child, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

} // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  uint32_t size = 0;
  while (receive(&size, sizeof(size))) {
    std::string request(size, '\0');
    if (!receive(request.data(), size))
      break;
    pid_t server = getpid(), child = fork();
    check(child >= 0, "fork");
    if (child == 0)
      runCommand(std::move(request), server);
    int32_t code = waitFor(child);
    check(write(STDIN_FILENO, &code, sizeof(code)) == sizeof(code), "write");
  }
  fcdp::run::endProcess(EXIT_SUCCESS);
}
