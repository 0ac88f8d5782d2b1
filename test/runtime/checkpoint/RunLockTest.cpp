// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/RunLock.h"
#include "plan/FakeStep.h"

#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace fcdp;
using namespace fcdp::test;

namespace {

TEST(RunLockTest, OneJobAtATime) {
  TemporaryFolder folder;
  const std::string run = folder.file("run");
  std::optional<RunLock> first(std::in_place, run);
  try {
    RunLock second(run, std::chrono::milliseconds(0));
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_EQ(std::string(error.what()).find(run + ": another job"), 0u)
        << error.what();
  }
  RunLock other(folder.file("other"), std::chrono::milliseconds(0));
  first.reset();
  RunLock next(run, std::chrono::milliseconds(0));
}

TEST(RunLockTest, WaitsForAJobThatEnds) {
  TemporaryFolder folder;
  std::optional<RunLock> first(std::in_place, folder.file("run"));
  std::thread ending([&] { first.reset(); });
  RunLock second(folder.file("run"));
  ending.join();
}

TEST(RunLockTest, NamesAFolderThatCannotBeMade) {
  TemporaryFolder folder;
  std::ofstream(folder.file("run")) << "a file";
  EXPECT_THROW(RunLock(folder.file("run") + "/below"), std::runtime_error);
}

} // namespace
