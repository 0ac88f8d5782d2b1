// SPDX-License-Identifier: Apache-2.0
#include "operators/HostThreads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace fcdp {
namespace {

TEST(HostThreads, RunEachTaskOnceWithOneThreadOfLibtorch) {
  const int before = at::get_num_threads();
  HostThreads threads(3);
  EXPECT_EQ(at::get_num_threads(), before);
  std::vector<std::atomic<int>> runs(100);
  std::atomic<int> others{0};
  for (int round = 0; round < 20; ++round)
    threads.run(runs.size(), [&](size_t thread, size_t index) {
      ++runs[index];
      others += thread >= 3 || at::get_num_threads() != 1;
    });
  for (const auto &count : runs)
    EXPECT_EQ(count, 20);
  EXPECT_EQ(others, 0);
}

TEST(HostThreads, ThrowTheFirstErrorAndGoOn) {
  HostThreads threads(2);
  auto fail = [](size_t, size_t index) {
    if (index == 5)
      throw std::runtime_error("task 5");
  };
  EXPECT_THROW(threads.run(10, fail), std::runtime_error);
  std::atomic<int> count{0};
  threads.run(10, [&](size_t, size_t) { ++count; });
  EXPECT_EQ(count, 10);
  threads.run(0, fail);
}

} // namespace
} // namespace fcdp
