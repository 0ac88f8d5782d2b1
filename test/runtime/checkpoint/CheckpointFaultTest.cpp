// SPDX-License-Identifier: Apache-2.0
//
// Every operation on files that a save makes fails once, or kills the process:
// the last complete checkpoint is always found and whole.
//
// The functions of libc that change files are replaced in this program.
#include "checkpoint/SampleCheckpoint.h"
#include "plan/FakeStep.h"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// The operation that fails, counted from 1; 0 for none.
int failing = 0;
int numOperations = 0;
/// The error that it has; 0 kills the process before the operation, -1 after
/// half of a write.
int failure = 0;

/// Counts an operation; returns whether it is to fail, with errno set.
bool fails() {
  if (++numOperations != failing)
    return false;
  if (failure <= 0)
    raise(SIGKILL);
  errno = failure;
  return true;
}

template <typename Function>
Function next(Function, const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

ssize_t write(int file, const void *data, size_t bytes) {
  static auto real = next(&write, "write");
  if (numOperations + 1 == failing && failure != 0 && bytes > 1)
    (void)real(file, data, bytes / 2);
  return fails() ? -1 : real(file, data, bytes);
}

int fsync(int file) {
  static auto real = next(&fsync, "fsync");
  return fails() ? -1 : real(file);
}

int rename(const char *from, const char *to) noexcept {
  static auto real = next(&rename, "rename");
  return fails() ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode) noexcept {
  static auto real = next(&mkdir, "mkdir");
  return fails() ? -1 : real(path, mode);
}

int unlinkat(int folder, const char *path, int flags) noexcept {
  static auto real = next(&unlinkat, "unlinkat");
  return fails() ? -1 : real(folder, path, flags);
}

int open(const char *path, int flags, ...) {
  static auto real = reinterpret_cast<int (*)(const char *, int, mode_t)>(
      dlsym(RTLD_NEXT, "open"));
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    if (fails())
      return -1;
  }
  return real(path, flags, mode);
}
}

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// Runs `work` in a process of its own in which operation `number` fails.
/// Returns whether there was such an operation.
template <typename Work>
bool runWithFault(int number, int kind, Work work) {
  pid_t child = fork();
  if (child == 0) {
    failing = number;
    failure = kind;
    numOperations = 0;
    try {
      work();
    } catch (const std::exception &error) {
      // The message names a file or folder of the run.
      _exit(std::string(error.what()).find("/run") == std::string::npos ? 3
                                                                        : 2);
    }
    _exit(numOperations < number ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    EXPECT_LE(kind, 0);
    return true;
  }
  // An error that was not noticed would be 1.
  EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2)
      << "operation " << number << " ended with " << WEXITSTATUS(status);
  return WEXITSTATUS(status) != 0;
}

class CheckpointFaultTest : public ::testing::TestWithParam<int> {};

TEST_P(CheckpointFaultTest, TheLastGoodOneIsFound) {
  TemporaryFolder folder;
  std::string run = folder.file("run");
  makeRunFolder(run);
  int64_t step = 10;
  saveSample(run, step);
  int number = 1;
  while (true) {
    bool isFaulty = runWithFault(number, GetParam(),
                                 [&] { saveSample(run, step + 10, 2); });
    auto found = findCheckpoint(run);
    ASSERT_TRUE(found) << "operation " << number;
    int64_t last = readSample(*found);
    if (!isFaulty) {
      EXPECT_EQ(last, step + 10);
      break;
    }
    // The save was complete if only an older one could not be removed.
    EXPECT_TRUE(last == step || last == step + 10) << "operation " << number;
    // The next save works on what is left, and removes it.
    step = last + 10;
    saveSample(run, step, 2);
    for (const auto &entry : std::filesystem::directory_iterator(run))
      EXPECT_EQ(entry.path().extension(), "") << entry.path();
    EXPECT_LE(listCheckpoints(run).size(), 2u);
    ++number;
  }
  // Two files and an index with one open, write and sync each and two renames,
  // folders, and the removal of an older checkpoint.
  EXPECT_GT(number, 20);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CheckpointFaultTest,
                         ::testing::Values(0, -1, EIO, ENOSPC),
                         [](const auto &info) -> std::string {
                           switch (info.param) {
                           case 0:
                             return "Killed";
                           case -1:
                             return "KilledInTheMiddle";
                           case EIO:
                             return "InputOutputError";
                           }
                           return "DiskFull";
                         });

} // namespace
