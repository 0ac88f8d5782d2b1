// SPDX-License-Identifier: Apache-2.0

#include "cuda/ProcessorPlacement.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp;

namespace {

cpu_set_t setOf(std::initializer_list<int> processors) {
  cpu_set_t made;
  CPU_ZERO(&made);
  for (int processor : processors)
    CPU_SET(processor, &made);
  return made;
}

/// Returns the processors next to a device for which the system says `text`.
cpu_set_t read(const std::string &text) {
  const std::string root =
      testing::TempDir() + "processor-placement-" + std::to_string(getpid());
  std::filesystem::create_directories(root + "/0000:3b:00.0");
  std::ofstream(root + "/0000:3b:00.0/local_cpulist") << text;
  cpu_set_t found = processorsNextTo("0000:3B:00.0", root);
  std::filesystem::remove_all(root);
  return found;
}

bool isEqual(const cpu_set_t &one, const cpu_set_t &other) {
  return CPU_EQUAL(&one, &other);
}

/// Runs `body` in a process of its own, which threads of tests do not follow.
int inChild(int (*body)()) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST(ProcessorPlacement, ReadsTheListOfADevice) {
  EXPECT_TRUE(isEqual(read("0-2,8\n"), setOf({0, 1, 2, 8})));
  EXPECT_TRUE(isEqual(read("5\n"), setOf({5})));
  EXPECT_TRUE(isEqual(processorsNextTo("0000:ff:00.0"), setOf({})));
}

TEST(ProcessorPlacement, AListThatIsNoneIsEmpty) {
  for (const char *text : {"", "\n", "none", "3-1", "0-9999999", "-4", "0,x"})
    EXPECT_TRUE(isEqual(read(text), setOf({}))) << text;
}

TEST(ProcessorPlacement, AThreadIsBoundOnce) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
    GTEST_SKIP() << "one processor";
  EXPECT_EQ(inChild([] {
              cpu_set_t usable, now;
              sched_getaffinity(0, sizeof(usable), &usable);
              if (CPU_COUNT(&usable) < 2)
                return 0;
              int first = 0;
              while (!CPU_ISSET(first, &usable))
                ++first;
              const cpu_set_t one = setOf({first});
              if (runNextTo(one, getppid()) != 1)
                return 1;
              sched_getaffinity(0, sizeof(now), &now);
              if (!isEqual(now, one))
                return 2;
              // It may use less than the parent now, as after `taskset`.
              return runNextTo(usable, getppid()) == 0 ? 0 : 3;
            }),
            0);
}

TEST(ProcessorPlacement, ProcessorsThatMayNotBeUsedChangeNothing) {
  EXPECT_EQ(inChild([] {
              cpu_set_t before, after;
              sched_getaffinity(0, sizeof(before), &before);
              if (runNextTo(setOf({CPU_SETSIZE - 1}), getppid()) != 0 ||
                  runNextTo(setOf({}), getppid()) != 0 ||
                  runNextTo(before, getppid()) != 0)
                return 1;
              sched_getaffinity(0, sizeof(after), &after);
              return isEqual(before, after) ? 0 : 2;
            }),
            0);
}
