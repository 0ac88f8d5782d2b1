// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Overlap/OverlapPlanning.h"

#include "gtest/gtest.h"

#include <functional>
#include <random>

using namespace fcdp;

namespace {
constexpr uint8_t kInter = 1, kIntra = 2, kInterReduce = 5;

OverlapProblem::Stage stage(uint8_t stream, Resource resource, double seconds) {
  OverlapProblem::Stage result;
  result.stream = stream;
  result.cost = {resource, 0, seconds};
  return result;
}

/// Makes `count` layers of one second. Each has a copy of 10 bytes that takes
/// `seconds` to gather, followed by a reduction of the same duration.
OverlapProblem makeLayers(size_t count, double seconds) {
  OverlapProblem problem;
  problem.deviceBudget = 1000000;
  for (size_t i = 0; i < count; ++i) {
    problem.pieces.push_back({1, 100, true, true});
    OverlapProblem::Fetch fetch;
    fetch.stages = {stage(kInter, Resource::inter, seconds),
                    stage(kIntra, Resource::intra, seconds / 4)};
    fetch.needed = fetch.until = i;
    fetch.bytes = 10;
    problem.fetches.push_back(fetch);
    OverlapProblem::Reduction reduction;
    reduction.stages = {stage(kInterReduce, Resource::h2d, seconds)};
    reduction.issued = i;
    reduction.earliest = i + 1;
    reduction.latest = count;
    reduction.bytes = 7;
    problem.reductions.push_back(reduction);
  }
  return problem;
}

std::string messageOf(llvm::Error error) { return toString(std::move(error)); }

/// Plans, and fails if the problem or the solution is invalid.
OverlapSolution plan(const OverlapProblem &problem) {
  EXPECT_EQ(messageOf(problem.check()), "");
  llvm::Expected<OverlapSolution> solution = planOverlap(problem);
  if (!solution) {
    ADD_FAILURE() << messageOf(solution.takeError());
    return {};
  }
  EXPECT_EQ(messageOf(solution->verify(problem)), "");
  return *solution;
}
} // namespace

TEST(OverlapPlanning, ProgramOrderExposesEveryTransfer) {
  OverlapProblem problem = makeLayers(4, 0.8);
  // Each layer waits for a gather of 1 s and, except for the first, for the
  // previous reduction, which began when the previous piece ended.
  OverlapSolution solution = overlapUniformly(problem, 0, 1);
  EXPECT_DOUBLE_EQ(solution.estimate.seconds, 4 + 4 * 1.0 + 4 * 0.8);
  EXPECT_EQ(solution.estimate.deviceBytes, 117);
}

TEST(OverlapPlanning, HidesAllButTheFirstAndTheLast) {
  OverlapProblem problem = makeLayers(8, 0.8);
  OverlapSolution solution = plan(problem);
  EXPECT_NEAR(solution.estimate.seconds, 1.0 + 8 + 0.8, 0.01);
}

TEST(OverlapPlanning, HoldsNoMoreThanThatTakes) {
  // A copy that is gathered within half of the previous piece needs no more
  // lead.
  OverlapProblem problem = makeLayers(8, 0.4);
  OverlapSolution solution = plan(problem);
  OverlapSolution far = overlapUniformly(problem, 8, 8);
  EXPECT_NEAR(solution.estimate.seconds, far.estimate.seconds, 0.02);
  EXPECT_EQ(solution.estimate.deviceBytes, 100 + 2 * 10 + 2 * 7);
  EXPECT_GT(far.estimate.deviceBytes, 100 + 2 * 10 + 2 * 7);
}

TEST(OverlapPlanning, GoesFurtherAheadOnlyForWhatIsLong) {
  OverlapProblem problem = makeLayers(8, 0.4);
  problem.fetches[6].stages[0].cost.seconds = 3;
  OverlapSolution solution = plan(problem);
  EXPECT_NEAR(solution.estimate.seconds, 0.5 + 8 + 0.4, 0.1);
  EXPECT_GE(problem.countAhead(solution.fetched[6], 6), 4u);
  EXPECT_LE(problem.countAhead(solution.fetched[3], 3), 3u);
}

TEST(OverlapPlanning, ABudgetShortens) {
  OverlapProblem problem = makeLayers(6, 0.9);
  OverlapSolution free = plan(problem);
  problem.deviceBudget = free.estimate.deviceBytes - 1;
  OverlapSolution tight = plan(problem);
  EXPECT_LE(tight.estimate.deviceBytes, problem.deviceBudget);
  EXPECT_GT(tight.estimate.seconds, free.estimate.seconds);
}

TEST(OverlapPlanning, WhatCannotFitIsRefused) {
  OverlapProblem problem = makeLayers(3, 0.5);
  problem.deviceBudget = 116;
  llvm::Expected<OverlapSolution> solution = planOverlap(problem);
  ASSERT_FALSE(bool(solution));
  EXPECT_EQ(messageOf(solution.takeError()),
            "no schedule fits: the smallest takes 117 bytes of device memory "
            "of 116");
}

TEST(OverlapPlanning, GivenDistancesAreKept) {
  OverlapProblem problem = makeLayers(6, 0.9);
  problem.ahead = 0;
  problem.inFlight = 4;
  OverlapSolution solution = plan(problem);
  EXPECT_EQ(solution.fetched, overlapUniformly(problem, 0, 1).fetched);
  EXPECT_EQ(solution.accumulated, overlapUniformly(problem, 0, 4).accumulated);
  solution.fetched[5] = 4;
  EXPECT_EQ(messageOf(solution.verify(problem)),
            "fetch 5 is more than 0 ahead");
  solution = plan(problem);
  --solution.accumulated[0];
  EXPECT_EQ(messageOf(solution.verify(problem)),
            "the given distance is not kept");
}

TEST(OverlapPlanning, MovesNothingInFrontOfWhatItNeeds) {
  OverlapProblem problem = makeLayers(6, 2);
  problem.fetches[4].earliest = 3;
  problem.pieces[3].mayFetch = problem.pieces[2].mayAccumulate = false;
  problem.fetches.erase(problem.fetches.begin() + 3);
  OverlapSolution solution = plan(problem);
  EXPECT_EQ(solution.fetched[3], 4u);
  EXPECT_EQ(overlapUniformly(problem, 8, 8).fetched[3], 4u);
}

namespace {
OverlapProblem makeRandom(std::mt19937 &random, size_t pieces) {
  auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  OverlapProblem problem;
  problem.mostAhead = problem.mostInFlight = 4;
  for (size_t i = 0; i < pieces; ++i)
    problem.pieces.push_back({draw(1, 8) / 4.0, draw(0, 20), draw(0, 3) != 0,
                              draw(0, 2) != 0, draw(0, 4) / 16.0});
  for (size_t i = 0; i < pieces; ++i) {
    if (problem.pieces[i].mayFetch) {
      OverlapProblem::Fetch fetch;
      fetch.stages = {stage(kInter, Resource::inter, draw(0, 8) / 4.0),
                      stage(kIntra, Resource::intra, draw(0, 4) / 4.0)};
      fetch.needed = i;
      fetch.until = draw(i, std::min(i + 2, pieces - 1));
      fetch.bytes = draw(0, 30);
      problem.fetches.push_back(fetch);
    }
    if (draw(0, 1)) {
      OverlapProblem::Reduction reduction;
      reduction.stages = {
          stage(kInterReduce, Resource::inter, draw(0, 8) / 4.0)};
      reduction.issued = i;
      reduction.earliest = i + 1;
      reduction.latest = draw(0, 3) ? pieces : i + 1;
      reduction.bytes = draw(0, 30);
      problem.reductions.push_back(reduction);
    }
  }
  problem.deviceBudget =
      overlapUniformly(problem, 0, 1).estimate.deviceBytes + draw(0, 80);
  return problem;
}
} // namespace

TEST(OverlapPlanning, IsNeverWorseThanADistanceThatFits) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    OverlapProblem problem = makeRandom(random, 12);
    OverlapSolution solution = plan(problem);
    for (size_t ahead : {1, 2, 3})
      for (size_t inFlight : {1, 2, 3}) {
        OverlapSolution uniform = overlapUniformly(problem, ahead, inFlight);
        if (!messageOf(uniform.verify(problem)).empty())
          continue; // does not fit
        EXPECT_LE(solution.estimate.seconds,
                  uniform.estimate.seconds * (1 + 1e-3));
      }
  }
}

/// Returns the least time of all solutions that fit.
static double tryAll(const OverlapProblem &problem) {
  OverlapSolution solution = overlapUniformly(problem, 0, 1);
  double least = solution.estimate.seconds;
  std::function<void(size_t)> choose = [&](size_t index) {
    size_t fetches = problem.fetches.size();
    if (index == fetches + problem.reductions.size()) {
      OverlapSolution copy = solution;
      if (messageOf(copy.verify(problem)).empty())
        least = std::min(
            least, estimate(problem, copy.fetched, copy.accumulated).seconds);
      return;
    }
    bool isFetch = index < fetches;
    size_t &place = isFetch ? solution.fetched[index]
                            : solution.accumulated[index - fetches];
    size_t kept = place;
    size_t first = isFetch ? 0 : problem.reductions[index - fetches].earliest;
    size_t last = isFetch ? problem.fetches[index].needed
                          : problem.reductions[index - fetches].latest;
    for (place = first; place <= last; ++place)
      choose(index + 1);
    place = kept;
  };
  choose(0);
  return least;
}

TEST(OverlapPlanning, IsNearExhaustiveSearch) {
  std::mt19937 random(3);
  int equal = 0, trials = 60;
  for (int trial = 0; trial < trials; ++trial) {
    OverlapProblem problem = makeRandom(random, 4);
    double best = tryAll(problem);
    double found = plan(problem).estimate.seconds;
    EXPECT_GE(found, best * (1 - 1e-9));
    EXPECT_LE(found, best * 1.25);
    equal += found <= best * (1 + 1e-3);
  }
  EXPECT_GE(equal, trials * 8 / 10);
}

TEST(OverlapPlanning, ChecksTheProblem) {
  auto expectBad = [](const char *part, auto change) {
    OverlapProblem problem = makeLayers(3, 1);
    change(problem);
    std::string message = messageOf(problem.check());
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expectBad("expected a budget", [](auto &p) { p.deviceBudget = -1; });
  expectBad("at 1 place or more", [](auto &p) { p.mostInFlight = 0; });
  expectBad("a piece of compute", [](auto &p) { p.pieces[0].seconds = -1; });
  expectBad("a piece of compute", [](auto &p) { p.pieces[0].bytes = -1; });
  expectBad("fetch 1: expected to be needed",
            [](auto &p) { p.fetches[1].needed = 3; });
  expectBad("fetch 1: expected to be needed",
            [](auto &p) { p.fetches[1].until = 0; });
  expectBad("fetch 1: expected to be needed",
            [](auto &p) { p.fetches[1].earliest = 2; });
  expectBad("fetch 1: expected to be needed",
            [](auto &p) { p.pieces[1].mayFetch = false; });
  expectBad("fetch 2: expected stages",
            [](auto &p) { p.fetches[2].stages[0].stream = kComputeStream; });
  expectBad("fetch 2: expected stages",
            [](auto &p) { p.fetches[2].stages.clear(); });
  expectBad("fetch 2: expected stages", [](auto &p) {
    for (auto &stage : p.fetches[2].stages)
      stage.isAside = true;
  });
  expectBad("fetch 2: expected stages",
            [](auto &p) { p.fetches[2].bytes = -1; });
  expectBad("reduction 0: expected to be issued",
            [](auto &p) { p.reductions[0].earliest = 0; });
  expectBad("reduction 0: expected to be issued",
            [](auto &p) { p.reductions[0].latest = 9; });
  expectBad("reduction 1: expected to be issued", [](auto &p) {
    p.reductions[0].issued = 2;
    p.reductions[0].earliest = 3;
  });
  expectBad("reduction 1: expected stages",
            [](auto &p) { p.reductions[1].stages[0].cost.seconds = -1; });
}

TEST(OverlapPlanning, VerifiesTheSolution) {
  OverlapProblem problem = makeLayers(6, 0.5);
  problem.mostAhead = problem.mostInFlight = 2;
  auto expectBad = [&](const char *part, auto change) {
    OverlapSolution solution = overlapUniformly(problem, 1, 1);
    EXPECT_EQ(messageOf(solution.verify(problem)), "");
    change(solution);
    std::string message = messageOf(solution.verify(problem));
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expectBad("a plan of 5 fetches", [](auto &s) { s.fetched.pop_back(); });
  expectBad("fetch 2 is issued in front of piece 3",
            [](auto &s) { s.fetched[2] = 3; });
  expectBad("fetch 5 is issued in front of piece 2",
            [](auto &s) { s.fetched[5] = 2; });
  expectBad("fetch 5 is more than 2 ahead",
            [](auto &s) { s.fetched = {0, 0, 1, 2, 2, 2}; });
  expectBad("the sum of reduction 1 is accumulated before piece 1",
            [](auto &s) { s.accumulated[1] = 1; });
  expectBad("the sum of reduction 1 is accumulated before piece 7",
            [](auto &s) { s.accumulated[1] = 7; });
  expectBad("reduction 1 is in flight over more than 2 places",
            [](auto &s) { s.accumulated[1] = 4; });
  problem.deviceBudget = 117;
  OverlapSolution solution = overlapUniformly(problem, 1, 1);
  EXPECT_EQ(messageOf(solution.verify(problem)),
            "the plan takes 127 bytes of device memory of 117");
}
