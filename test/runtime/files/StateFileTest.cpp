// SPDX-License-Identifier: Apache-2.0
//
// States on disks.
#include "files/StateFile.h"

#include "files/DiskMemory.h"
#include "files/TransferRing.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

using namespace fcdp;

namespace fs = std::filesystem;

namespace {

/// Bytes that differ from those of other seeds and offsets.
std::vector<std::byte> makeBytes(size_t count, uint64_t seed) {
  std::vector<std::byte> bytes(count);
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (std::byte &byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = std::byte(state >> 56);
  }
  return bytes;
}

std::string failureOf(auto &&call) {
  try {
    call();
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

class StateFileTest : public ::testing::Test {
protected:
  /// New folders in the build folder, because the system's temporary one may be
  /// in memory.
  std::vector<std::string> makeFolders(size_t count) {
    std::vector<std::string> made;
    for (size_t i = 0; i < count; ++i) {
      made.push_back((root / std::to_string(i)).string());
      fs::create_directories(made.back());
    }
    return made;
  }
  ~StateFileTest() override { fs::remove_all(root); }

  const fs::path root =
      fs::current_path() / ("state-file-" + std::to_string(getpid()));
};

constexpr uint64_t kStripe = StateFile::kStripeBytes;

/// With io_uring, if the kernel allows it, and without.
constexpr bool kWays[] = {true, false};

TEST_F(StateFileTest, UsesIoUringWhereTheKernelAllowsIt) {
  auto folders = makeFolders(2);
  StateFile file(folders, kStripe);
  EXPECT_EQ(file.usesRings(), file.isDirect() && TransferRing::make());
  EXPECT_FALSE(StateFile(folders, kStripe, false).usesRings());
}

TEST_F(StateFileTest, WhatIsWrittenIsRead) {
  for (auto [count, mayUseRings] :
       {std::pair{1, true}, {2, true}, {3, true}, {1, false}, {3, false}}) {
    StateFile file(makeFolders(size_t(count)), 7 * kStripe + 5000, mayUseRings);
    // Ranges that begin and end within stripes and blocks, in all orders.
    const std::pair<uint64_t, size_t> ranges[] = {
        {5 * kStripe + 8192, 2 * kStripe - 8192 + 5000 - 4096},
        {0, 3 * kStripe},
        {3 * kStripe + 4096, 100},
        {4 * kStripe, kStripe + 1},
    };
    for (auto [offset, bytes] : ranges)
      file.write(offset, makeBytes(bytes, offset));
    for (auto [offset, bytes] : ranges) {
      std::vector<std::byte> back(bytes);
      file.read(offset, back);
      EXPECT_TRUE(back == makeBytes(bytes, offset)) << count << " " << offset;
    }
  }
}

TEST_F(StateFileTest, MemoryNeedNotBeAligned) {
  for (bool mayUseRings : kWays) {
    // More parts than are in flight.
    constexpr uint64_t bytes = 10 * kStripe;
    StateFile file(makeFolders(1), bytes + kStripe, mayUseRings);
    std::vector<std::byte> values = makeBytes(bytes + 64, 1),
                           back(values.size());
    std::span<const std::byte> from = std::span(values).subspan(64);
    file.write(4096, from);
    file.read(4096, std::span(back).subspan(1, bytes));
    EXPECT_TRUE(std::ranges::equal(from, std::span(back).subspan(1, bytes)));
  }
}

// Both ways go on after a short transfer, here one of a block.
TEST_F(StateFileTest, ARingGoesOnAfterShortTransfers) {
  std::unique_ptr<TransferRing> ring = TransferRing::make();
  if (!ring)
    GTEST_SKIP() << "the kernel allows no io_uring";
  const std::string path = makeFolders(1)[0] + "/file";
  const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  std::vector<std::byte> values = makeBytes(20 * 8192, 1), back(values.size());
  auto transfer = [&](std::vector<std::byte> &memory, bool isWrite) {
    std::vector<TransferRing::Transfer> all;
    for (uint64_t at = 0; at < memory.size(); at += 8192)
      all.push_back({at, memory.data() + at, 8192, isWrite});
    size_t results = 0;
    ring->run(file, all, [&](const auto &one, int64_t result) {
      EXPECT_EQ(result, int64_t(one.bytes));
      ++results;
      return uint64_t(4096);
    });
    return results;
  };
  EXPECT_EQ(transfer(values, /*isWrite=*/true), 40u);
  EXPECT_EQ(transfer(back, /*isWrite=*/false), 40u);
  EXPECT_TRUE(back == values);
  close(file);
  // A failure is thrown when nothing is in flight any more.
  std::vector<TransferRing::Transfer> one{{0, back.data(), 4096, false}};
  EXPECT_EQ(failureOf([&] {
              ring->run(file, one,
                        [](const auto &, int64_t result) -> uint64_t {
                          throw std::runtime_error(std::to_string(result));
                        });
            }),
            std::to_string(-EBADF));
}

TEST_F(StateFileTest, AnyBytesAreReadAndWritten) {
  StateFile file(makeFolders(2), 2 * kStripe + 100);
  std::vector<std::byte> expected = makeBytes(2 * kStripe + 100, 1);
  file.write(0, expected);
  // Within a block, over the edges of blocks and stripes, and up to the end.
  const std::pair<uint64_t, size_t> ranges[] = {
      {10, 20},  {4000, 200},     {4096, 4096},           {kStripe - 5, 9000},
      {8192, 1}, {12288, 3 * 64}, {2 * kStripe - 7, 107}, {5000, 0}};
  for (auto [offset, bytes] : ranges) {
    std::vector<std::byte> part = makeBytes(bytes, offset + 2);
    file.writeBytes(offset, part);
    std::ranges::copy(part, expected.begin() + ptrdiff_t(offset));
    std::vector<std::byte> back(bytes);
    file.readBytes(offset, back);
    EXPECT_TRUE(back == part) << offset;
  }
  std::vector<std::byte> all(expected.size());
  file.read(0, all);
  EXPECT_TRUE(all == expected);
}

TEST_F(StateFileTest, MemoryOnADisk) {
  auto folders = makeFolders(1);
  DiskMemory memory(folders[0], 3 * kStripe + 1);
  EXPECT_TRUE(fs::is_empty(folders[0]));
  std::span<std::byte> bytes = memory.bytes();
  ASSERT_EQ(bytes.size(), 3 * kStripe + 1);
  EXPECT_EQ(std::ranges::count(bytes, std::byte(0)), ptrdiff_t(bytes.size()));
  std::vector<std::byte> values = makeBytes(bytes.size(), 1);
  std::ranges::copy(values, bytes.begin());
  memory.flush();
  memory.requireRead();
  EXPECT_TRUE(std::ranges::equal(bytes, values));
  EXPECT_NE(failureOf([&] {
              DiskMemory tooMuch(folders[0], uint64_t(1) << 60);
            }).find("bytes are free"),
            std::string::npos);
}

TEST_F(StateFileTest, ThreadsReadAndWriteAtOnce) {
  StateFile file(makeFolders(2), 8 * kStripe);
  file.write(0, makeBytes(4 * kStripe, 1));
  std::vector<std::byte> back(4 * kStripe);
  std::thread reader([&] { file.read(0, back); });
  file.write(4 * kStripe, makeBytes(4 * kStripe, 2));
  reader.join();
  EXPECT_TRUE(back == makeBytes(4 * kStripe, 1));
  file.read(4 * kStripe, back);
  EXPECT_TRUE(back == makeBytes(4 * kStripe, 2));
}

TEST_F(StateFileTest, NoFileHasAName) {
  auto folders = makeFolders(2);
  StateFile file(folders, kStripe);
  file.write(0, makeBytes(100, 1));
  for (const std::string &folder : folders)
    EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(StateFileTest, MemoryIsNoDisk) {
  if (!fs::exists("/dev/shm"))
    GTEST_SKIP() << "no tmpfs at /dev/shm";
  EXPECT_EQ(failureOf([] { StateFile file({"/dev/shm"}, kStripe); }),
            "/dev/shm: expected a folder on a disk, got one in memory (tmpfs): "
            "states there would take the memory that they are to save");
}

TEST_F(StateFileTest, AFolderMustBeThereAndHaveSpace) {
  EXPECT_EQ(failureOf([] { StateFile file({"/no/folder"}, kStripe); }),
            "/no/folder: cannot be used for states: No such file or directory");
  auto folders = makeFolders(1);
  std::string failure =
      failureOf([&] { StateFile file(folders, uint64_t(1) << 60); });
  EXPECT_NE(failure.find(folders[0] + ": cannot be given 1152921504606846976 "
                                      "bytes for states of the optimizer: "),
            std::string::npos)
      << failure;
}

TEST_F(StateFileTest, ADiskThatFailsIsNamed) {
  auto folders = makeFolders(1);
  for (bool mayUseRings : kWays) {
    StateFile file(folders, 4 * kStripe, mayUseRings);
    pid_t child = fork();
    if (child == 0) {
      // A limit on the size of files makes a write short, and the next one
      // fail.
      (void)signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{kStripe + kStripe / 2, kStripe + kStripe / 2};
      (void)setrlimit(RLIMIT_FSIZE, &limit);
      std::string failure =
          failureOf([&] { file.write(0, makeBytes(3 * kStripe, 1)); });
      _exit(failure == folders[0] + ": cannot be written with states of the "
                                    "optimizer: File too large"
                ? 0
                : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << mayUseRings;
  }
}

TEST_F(StateFileTest, RangesOutsideAreRefused) {
  StateFile file(makeFolders(1), kStripe);
  std::vector<std::byte> bytes(8192);
  for (uint64_t offset : {uint64_t(100), kStripe - 4096})
    EXPECT_EQ(failureOf([&] { file.read(offset, bytes); }),
              "expected states at a multiple of 4096 bytes, within 1048576");
}

} // namespace
