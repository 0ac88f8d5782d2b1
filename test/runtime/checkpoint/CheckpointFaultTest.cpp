// SPDX-License-Identifier: Apache-2.0
//
// Every operation on files that a save makes fails once, kills the process, or
// is the last one before the power goes: the last complete checkpoint is always
// found and whole.
#include "checkpoint/FaultyFiles.h"
#include "checkpoint/SampleCheckpoint.h"
#include "files/ReplacedFile.h"
#include "plan/FakeStep.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

struct FaultCase {
  const char *name;
  FilesFault fault;
};

/// Runs `work` in a process of its own in which operation `number` fails, or
/// none if it is 0. Returns whether there was such an operation. Without one,
/// the power goes when the work is done.
template <typename Work>
bool runWithFault(int number, FilesFault fault, Work work) {
  pid_t child = fork();
  if (child == 0) {
    fault.operation = number;
    beginFaults(fault);
    try {
      work();
    } catch (const std::exception &error) {
      // The message names a file or folder of the run.
      _exit(std::string(error.what()).find("/run") == std::string::npos ? 3
                                                                        : 2);
    }
    losePower();
    _exit(number == 0 || numFileOperations() < number ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    EXPECT_NE(fault.kind, FilesFault::Error);
    return true;
  }
  // An error that was not noticed would be 1.
  EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2)
      << "operation " << number << " ended with " << WEXITSTATUS(status);
  return WEXITSTATUS(status) != 0;
}

class CheckpointFaultTest : public ::testing::TestWithParam<FaultCase> {
protected:
  CheckpointFaultTest() : run(folder.file("run")) {}

  TemporaryFolder folder;
  const std::string run;
};

TEST_P(CheckpointFaultTest, TheLastGoodOneIsFound) {
  makeRunFolder(run);
  int64_t step = 10;
  saveSample(run, step);
  int number = 1;
  while (true) {
    bool isFaulty = runWithFault(number, GetParam().fault,
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
    // Each folder that is listed as a checkpoint is one.
    for (int64_t listed : listCheckpoints(run))
      EXPECT_EQ(readSample(checkpointPath(run, listed)), listed);
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

TEST_P(CheckpointFaultTest, TheFirstOneLasts) {
  for (const char *name : {"run", "a/b/run"}) {
    std::string path = folder.file(name);
    EXPECT_FALSE(runWithFault(0, GetParam().fault, [&] {
      makeRunFolder(path);
      saveSample(path, 10);
    }));
    auto found = findCheckpoint(path);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(readSample(*found), 10);
  }
}

std::string textOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_P(CheckpointFaultTest, AReplacedFileIsTheOldOrTheNewOne) {
  const std::string temporary = temporaryName(run);
  std::string text = "old";
  int number = 1;
  bool isFaulty = true;
  for (; isFaulty; ++number) {
    std::ofstream(run, std::ios::binary) << "old";
    text = "new text, of several writes";
    isFaulty = runWithFault(number, GetParam().fault, [&] {
      ReplacedFile file(run);
      for (size_t at = 0; at < text.size(); at += 9)
        file.write(std::as_bytes(std::span(text).subspan(at).first(
            std::min<size_t>(9, text.size() - at))));
      file.finish();
    });
    std::string got = textOf(run);
    EXPECT_TRUE(got == text || (isFaulty && got == "old"))
        << "operation " << number << ": " << got;
    // A file that is left is complete, or is seen not to be.
    if (removeIncomplete(temporary)) {
      EXPECT_EQ(textOf(temporary), text) << "operation " << number;
      std::filesystem::remove(temporary);
    }
    std::filesystem::remove(run + ".replaced");
  }
  EXPECT_GT(number, 8);
}

constexpr FaultCase kFaultCases[] = {
    {"Killed", {.kind = FilesFault::Kill}},
    {"KilledInTheMiddle", {.kind = FilesFault::KillInTheMiddleOfAWrite}},
    {"InputOutputError", {.error = EIO}},
    {"DiskFull", {.error = ENOSPC}},
    {"ContentsLost", {.kind = FilesFault::Kill, .loss = Loss::Contents}},
    {"EarlierContentsLost",
     {.kind = FilesFault::Kill, .loss = Loss::EarlierContents}},
    {"NamesLost", {.kind = FilesFault::Kill, .loss = Loss::Names}},
    {"AllLost", {.kind = FilesFault::Kill, .loss = Loss::All}}};

INSTANTIATE_TEST_SUITE_P(Kinds, CheckpointFaultTest,
                         ::testing::ValuesIn(kFaultCases),
                         [](const auto &info) { return info.param.name; });

} // namespace
