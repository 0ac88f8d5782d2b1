// SPDX-License-Identifier: Apache-2.0
//
// Runs several processes, as in a job. They are forked before this process has
// threads.

#include "cpu/HostSegment.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp;

namespace {

HostSegmentOptions optionsFor(uint32_t local, uint32_t locals, uint64_t bytes) {
  HostSegmentOptions options;
  // The name contains the parent's process id, in the children too.
  options.name = std::string("segment-test-") +
                 std::to_string(local == 0 ? getpid() : getppid());
  options.local = local;
  options.locals = locals;
  options.bytes = bytes;
  options.part = {0, bytes};
  options.timeoutSeconds = 20;
  return options;
}

/// Starts a child whose exit code is the result of `body`.
pid_t startChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception &error) {
      fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(code);
  }
  return child;
}

int endOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string errorOf(const HostSegmentOptions &options) {
  try {
    HostSegment segment(options);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST(HostSegment, OneRankNeedsNobody) {
  HostSegment segment(optionsFor(0, 1, 5000));
  ASSERT_NE(segment.base(), nullptr);
  EXPECT_EQ(segment.base()[4999], std::byte(0));
  HostSegment other = std::move(segment);
  EXPECT_EQ(segment.base(), nullptr);
  EXPECT_EQ(other.size(), 5000u);
}

TEST(HostSegment, NoBytesNeedNobody) {
  HostSegment segment(optionsFor(1, 4, 0));
  EXPECT_EQ(segment.base(), nullptr);
}

TEST(HostSegment, IsSharedByTheProcessesOfANode) {
  constexpr uint32_t locals = 4;
  constexpr uint64_t share = 1 << 20;
  std::vector<pid_t> children;
  for (uint32_t local = 1; local < locals; ++local)
    children.push_back(startChild([=] {
      HostSegmentOptions own = optionsFor(local, locals, locals * share);
      own.part = {local * share, (local + 1) * share};
      HostSegment segment(own);
      memset(segment.base() + local * share, int(local), share);
      return 0;
    }));
  HostSegment segment(optionsFor(0, locals, locals * share));
  for (pid_t child : children)
    EXPECT_EQ(endOf(child), 0);
  for (uint32_t local = 1; local < locals; ++local)
    for (uint64_t i = 0; i < share; ++i)
      ASSERT_EQ(segment.base()[local * share + i], std::byte(local));
}

/// Returns how many of the pages have memory, in any process.
size_t countPages(std::byte *base, uint64_t bytes) {
  std::vector<unsigned char> has(bytes / size_t(getpagesize()));
  mincore(base, bytes, has.data());
  return std::count_if(has.begin(), has.end(),
                       [](unsigned char one) { return one & 1; });
}

// So the hand-over takes no longer for a large segment, and pages come from
// where their rank wants them.
TEST(HostSegment, EachRankReservesItsPartAlone) {
  const auto page = uint64_t(getpagesize());
  auto optionsOf = [&](uint32_t local) {
    HostSegmentOptions options = optionsFor(local, 2, 20 * page);
    options.part = local == 0 ? SegmentPart{0, 7 * page + 100}
                              : SegmentPart{7 * page + 128, 14 * page};
    return options;
  };
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = startChild([&] {
    HostSegmentOptions options = optionsOf(1);
    std::byte *placed = nullptr;
    uint64_t bytes = 0;
    options.place = [&](std::byte *base, uint64_t size) {
      char byte;
      if (read(ready[0], &byte, 1) != 1) // rank 0 has its pages
        _exit(1);
      placed = base;
      bytes = size;
      if (countPages(base, size) != 0)
        _exit(2);
    };
    HostSegment segment(options);
    // The page that both use is rank 0's to place.
    bool isOwn = placed == segment.base() + 8 * page && bytes == 6 * page &&
                 segment.pages().data() == segment.base() + 7 * page &&
                 segment.pages().size() == 7 * page;
    return isOwn && countPages(segment.base(), 20 * page) == 14 ? 0 : 3;
  });
  HostSegment segment(optionsOf(0));
  EXPECT_EQ(countPages(segment.base(), 20 * page), 8u);
  ASSERT_EQ(write(ready[1], "", 1), 1);
  EXPECT_EQ(endOf(child), 0);
}

TEST(HostSegment, APartOutsideIsRefused) {
  HostSegmentOptions options = optionsFor(0, 1, 4096);
  options.part = {0, 4097};
  EXPECT_EQ(errorOf(options),
            "host cache of 4096 bytes: expected a part inside "
            "it, got one that ends at 4097");
}

// The segment has no name that could be left, neither a file nor a socket.
TEST(HostSegment, AKilledRankLeavesNothing) {
  pid_t child = startChild([] {
    HostSegment segment(optionsFor(1, 2, 4096));
    segment.base()[0] = std::byte(1);
    pause();
    return 0;
  });
  std::string name = optionsFor(0, 2, 4096).name;
  {
    HostSegment segment(optionsFor(0, 2, 4096));
    while (static_cast<volatile std::byte *>(segment.base())[0] != std::byte(1))
      usleep(1000);
    kill(child, SIGKILL);
    EXPECT_EQ(endOf(child), -SIGKILL);
  }
  for (const char *file : {"/proc/net/unix", "/proc/self/maps"}) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      EXPECT_EQ(line.find(name), std::string::npos) << line;
      EXPECT_EQ(line.find("fcdp-host-cache"), std::string::npos) << line;
    }
  }
}

TEST(HostSegment, MoreThanThereIsIsAnErrorForAll) {
  constexpr uint64_t tooMuch = uint64_t(1) << 50;
  pid_t child = startChild([] {
    std::string error = errorOf(optionsFor(1, 2, tooMuch));
    bool told = error.find("local rank 0 could not make it: not enough memory "
                           "for the host cache") != std::string::npos;
    return told ? 0 : 1;
  });
  std::string error = errorOf(optionsFor(0, 2, tooMuch));
  EXPECT_NE(error.find("not enough memory for the host cache"),
            std::string::npos)
      << error;
  EXPECT_EQ(endOf(child), 0);
}

TEST(HostSegment, DifferentSizesAreAnError) {
  pid_t child = startChild(
      [] { return errorOf(optionsFor(1, 2, 8192)).empty() ? 1 : 0; });
  EXPECT_NE(errorOf(optionsFor(0, 2, 4096)).find("local rank 1 wants 8192"),
            std::string::npos);
  EXPECT_EQ(endOf(child), 0);
}

TEST(HostSegment, AMissingRankIsNamedAtTheTimeOut) {
  HostSegmentOptions options = optionsFor(0, 3, 4096);
  options.timeoutSeconds = 0.2;
  EXPECT_NE(errorOf(options).find("local ranks 1, 2 did not come"),
            std::string::npos);
  options.local = 1;
  EXPECT_NE(errorOf(options).find("local rank 0 did not offer it"),
            std::string::npos);
}
