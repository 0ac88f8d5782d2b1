// SPDX-License-Identifier: Apache-2.0
#include "core/FileDescriptor.h"

#include <array>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp;

namespace {

bool isOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/// The exit code of `work` in a forked child.
template <typename Work>
int inChild(Work work) {
  pid_t child = fork();
  if (child == 0)
    _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Pipe {
  Pipe() {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe(ends.data()), 0);
    reads = FileDescriptor(ends[0]);
    writes = FileDescriptor(ends[1]);
  }
  FileDescriptor reads, writes;
};

} // namespace

TEST(ForkedChild, KeepsOnlyWhatIsNotPrivate) {
  Pipe pipe;
  pipe.writes.keepFromChildren();
  EXPECT_EQ(inChild([&] {
              return (isOpen(pipe.reads.get()) ? 1 : 0) +
                     (isOpen(pipe.writes.get()) ? 2 : 0);
            }),
            1);
  EXPECT_TRUE(isOpen(pipe.writes.get()));
}

// A reader sees the end of a connection when the process ends that made it,
// although a child of that process lives.
TEST(ForkedChild, DoesNotKeepAConnectionOpen) {
  Pipe pipe, gate;
  pipe.writes.keepFromChildren();
  pid_t child = fork();
  if (child == 0) {
    char byte;
    gate.writes = FileDescriptor();
    _exit(int(read(gate.reads.get(), &byte, 1)));
  }
  pipe.writes = FileDescriptor();
  char byte;
  EXPECT_EQ(read(pipe.reads.get(), &byte, 1), 0);
  gate.writes = FileDescriptor();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The number of a private descriptor may be another file's in a child.
TEST(ForkedChild, ClosesNothingThatItOpenedItself) {
  auto *pipe = new Pipe();
  pipe->writes.keepFromChildren();
  EXPECT_EQ(inChild([&] {
              int number = pipe->writes.get();
              int opened = dup2(pipe->reads.get(), number);
              delete pipe;
              return opened == number && isOpen(number) ? 0 : 1;
            }),
            0);
  delete pipe;
}

TEST(ForkedChild, AMovedDescriptorStaysPrivate) {
  Pipe pipe;
  pipe.writes.keepFromChildren();
  FileDescriptor moved = std::move(pipe.writes);
  EXPECT_EQ(inChild([&] { return isOpen(moved.get()) ? 1 : 0; }), 0);
  int released = moved.release();
  EXPECT_EQ(inChild([&] { return isOpen(released) ? 0 : 1; }), 0);
  close(released);
}
