// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/LowerBound.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace fcdp;

namespace {
Cost compute(double seconds) { return {Resource::compute, 0, seconds}; }
Cost gather(double seconds) { return {Resource::inter, 0, seconds}; }
double of(const DependenceGraph &graph, Resource resource) {
  return graph.bound()[static_cast<unsigned>(resource)];
}
double most(const DependenceGraph &graph) {
  std::array<double, kNumResources> bounds = graph.bound();
  return *std::max_element(bounds.begin(), bounds.end());
}
} // namespace

TEST(OneMachine, WaitsForTheFirstHead) {
  MachineJob jobs[] = {{2, 3, 0}, {4, 1, 0}};
  EXPECT_DOUBLE_EQ(boundOneMachine(jobs), 6);
}

TEST(OneMachine, DoesTheGreatestTailFirst) {
  // The job with the tail of 5 interrupts the other: 1 + 2 + 5 and 1 + 4 + 2.
  MachineJob jobs[] = {{0, 4, 0}, {1, 2, 5}};
  EXPECT_DOUBLE_EQ(boundOneMachine(jobs), 8);
}

TEST(OneMachine, HasNothingToDo) { EXPECT_EQ(boundOneMachine({}), 0); }

/// Returns the least end of all schedules, second by second.
static double tryAll(std::vector<MachineJob> jobs, double now) {
  double least = -1, next = -1;
  bool isDone = true;
  for (MachineJob &job : jobs) {
    if (job.seconds == 0)
      continue;
    isDone = false;
    if (job.head > now) {
      next = next < 0 ? job.head : std::min(next, job.head);
      continue;
    }
    --job.seconds;
    double end = tryAll(jobs, now + 1);
    if (job.seconds == 0)
      end = std::max(end, now + 1 + job.tail);
    least = least < 0 ? end : std::min(least, end);
    ++job.seconds;
  }
  if (isDone)
    return now;
  return least < 0 ? tryAll(jobs, next) : least;
}

TEST(OneMachine, EqualsExhaustiveSearch) {
  std::mt19937 random(7);
  auto draw = [&](int low, int high) {
    return double(std::uniform_int_distribution<int>(low, high)(random));
  };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<MachineJob> jobs;
    for (int i = 0; i < 4; ++i)
      jobs.push_back({draw(0, 6), draw(1, 2), draw(0, 6)});
    EXPECT_DOUBLE_EQ(boundOneMachine(jobs), tryAll(jobs, 0));
  }
}

TEST(DependenceGraph, TheHostIssuesAllJobs) {
  DependenceGraph graph;
  Cost job = compute(1), copy = gather(1);
  job.issue = 2;
  copy.issue = 3;
  graph.add(job, {});
  graph.add(copy, {});
  EXPECT_DOUBLE_EQ(of(graph, Resource::compute), 5);
  EXPECT_DOUBLE_EQ(of(graph, Resource::inter), 1);
}

TEST(DependenceGraph, FillAndDrainAreInTheBoundOfCompute) {
  DependenceGraph graph;
  uint32_t fill = graph.add(gather(2), {});
  uint32_t work = graph.add(compute(5), {fill});
  graph.add(gather(3), {work});
  EXPECT_DOUBLE_EQ(of(graph, Resource::compute), 10);
  EXPECT_DOUBLE_EQ(of(graph, Resource::inter), 10);
}

TEST(DependenceGraph, GathersOnTheWayAddUp) {
  // Each of three layers needs its own gather and the result of the layer
  // before, so the last one begins after all three gathers.
  DependenceGraph graph;
  std::vector<uint32_t> before;
  for (int i = 0; i < 3; ++i) {
    std::vector<uint32_t> needed = before;
    needed.push_back(graph.add(gather(4), {}));
    before = {graph.add(compute(1), needed)};
  }
  EXPECT_DOUBLE_EQ(of(graph, Resource::compute), 13);
}

TEST(DependenceGraph, AGatherThatIsUsedTwiceCountsOnce) {
  DependenceGraph graph;
  uint32_t copy = graph.add(gather(4), {});
  uint32_t view = graph.add({}, {copy});
  uint32_t first = graph.add(compute(1), {view});
  graph.add(compute(1), {first, view});
  EXPECT_DOUBLE_EQ(of(graph, Resource::compute), 6);
}

TEST(DependenceGraph, LatencyHoldsTheStreamOfCompute) {
  DependenceGraph graph;
  graph.add({Resource::compute, 1, 2}, {});
  graph.add({Resource::compute, 1, 2}, {});
  graph.add({Resource::inter, 1, 2}, {});
  graph.add({Resource::inter, 1, 2}, {});
  EXPECT_DOUBLE_EQ(of(graph, Resource::compute), 6);
  EXPECT_DOUBLE_EQ(of(graph, Resource::inter), 4);
}

TEST(DependenceGraph, AnotherStreamComputesDuringTheLatency) {
  DependenceGraph graph;
  graph.add({Resource::compute, 3, 1}, {});
  graph.add({Resource::compute, 1, 2}, {}, /*onComputeStream=*/false);
  EXPECT_DOUBLE_EQ(of(graph, Resource::compute), 4);
}

TEST(DependenceGraph, NoOrderBeatsTheBound) {
  std::mt19937 random(11);
  auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 500; ++trial) {
    DependenceGraph graph;
    std::vector<Cost> costs;
    std::vector<std::vector<uint32_t>> needs;
    for (uint32_t i = 0; i < 12; ++i) {
      auto resource = static_cast<Resource>(draw(0, kNumResources - 1));
      costs.push_back({resource, double(draw(0, 1)), double(draw(0, 4))});
      std::vector<uint32_t> &needed = needs.emplace_back();
      for (uint32_t before = 0; before < i; ++before)
        if (draw(0, 3) == 0)
          needed.push_back(before);
      graph.add(costs.back(), needed);
    }
    // Runs one job after the other, in a random order that respects
    // dependences.
    std::vector<double> ends(costs.size(), -1);
    std::array<double, kNumResources> free{};
    double end = 0;
    for (size_t done = 0; done < costs.size();) {
      uint32_t node = draw(0, costs.size() - 1);
      bool isReady =
          ends[node] < 0 && std::all_of(
                                needs[node].begin(), needs[node].end(),
                                [&](uint32_t n) { return ends[n] >= 0; });
      if (!isReady)
        continue;
      double &machine = free[static_cast<unsigned>(costs[node].resource)];
      double begin = machine;
      for (uint32_t before : needs[node])
        begin = std::max(begin, ends[before]);
      machine = ends[node] = begin + costs[node].getTotal();
      end = std::max(end, ends[node]);
      ++done;
    }
    EXPECT_LE(most(graph), end);
  }
}
