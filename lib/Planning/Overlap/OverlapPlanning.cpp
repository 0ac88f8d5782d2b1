// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Overlap/OverlapPlanning.h"
#include "OverlapTimeline.h"
#include "fcdp/Planning/Checks.h"
#include "fcdp/Planning/SearchConstants.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace fcdp;

//===----------------------------------------------------------------------===//
// Just in time
//===----------------------------------------------------------------------===//

/// Returns the latest begin of `fetch` with which the copy is complete by
/// `deadline`. Each stream is free until `free`, which is reduced by the fetch.
static double beginLatest(const OverlapProblem::Fetch &fetch,
                          llvm::ArrayRef<double> durations, double deadline,
                          std::array<double, kNumSimulatedStreams> &free) {
  for (size_t s = fetch.stages.size(); s-- > 0;) {
    const OverlapProblem::Stage &stage = fetch.stages[s];
    if (stage.isAside)
      continue;
    deadline = std::min(deadline, free[stage.stream]) - durations[s];
    free[stage.stream] = deadline;
  }
  return deadline;
}

/// Plans transfers that end `slack` seconds before they are needed, by the
/// times measured in `loose`. No distance is greater than in `loose`.
static OverlapSolution planJustInTime(const OverlapProblem &problem,
                                      const OverlapSolution &loose,
                                      const OverlapTimeline &timeline,
                                      double slack) {
  OverlapSolution solution = loose;
  std::array<double, kNumSimulatedStreams> free;
  free.fill(std::numeric_limits<double>::infinity());
  for (size_t i = problem.ahead ? 0 : problem.fetches.size(); i-- > 0;) {
    const OverlapProblem::Fetch &fetch = problem.fetches[i];
    double begin = beginLatest(fetch, timeline.fetches[i],
                               timeline.pieces[fetch.needed] - slack, free);
    size_t last =
        i + 1 < problem.fetches.size() ? solution.fetched[i + 1] : fetch.needed;
    for (size_t piece = std::min(last, fetch.needed); piece > loose.fetched[i];
         --piece)
      if (problem.pieces[piece].mayFetch && timeline.pieces[piece] <= begin) {
        solution.fetched[i] = piece;
        break;
      }
  }
  for (const auto &[i, reduction] : llvm::enumerate(problem.reductions)) {
    if (problem.inFlight)
      break;
    double done = timeline.reductions[i] + slack;
    for (size_t place = reduction.earliest; place < loose.accumulated[i];
         ++place)
      if ((place == reduction.earliest ||
           problem.pieces[place].mayAccumulate) &&
          timeline.pieces[place] >= done) {
        solution.accumulated[i] = place;
        break;
      }
  }
  solution.estimate =
      ::estimate(problem, solution.fetched, solution.accumulated);
  return solution;
}

//===----------------------------------------------------------------------===//
// Fitting
//===----------------------------------------------------------------------===//

/// Moves the last fetch that is ahead of its use at `piece` to the next
/// possible place after `piece`. Returns false if there is none.
static bool shortenFetch(const OverlapProblem &problem, size_t piece,
                         OverlapSolution &solution) {
  for (size_t i = problem.fetches.size(); i-- > 0;) {
    const OverlapProblem::Fetch &fetch = problem.fetches[i];
    if (solution.fetched[i] > piece || fetch.needed <= piece)
      continue;
    size_t next = piece + 1;
    while (!problem.pieces[next].mayFetch)
      ++next; // `needed` may
    solution.fetched[i] = next;
    return true;
  }
  return false;
}

/// Accumulates one result before `piece` whose reduction is in flight there.
static bool shortenReduction(const OverlapProblem &problem, size_t piece,
                             OverlapSolution &solution) {
  for (const auto &[i, reduction] : llvm::enumerate(problem.reductions)) {
    if (reduction.issued > piece || solution.accumulated[i] <= piece ||
        reduction.earliest > piece)
      continue;
    size_t last = piece;
    while (last > reduction.earliest && !problem.pieces[last].mayAccumulate)
      --last;
    solution.accumulated[i] = last;
    return true;
  }
  return false;
}

/// Shortens distances until the memory fits. Returns whether it does.
static bool fit(const OverlapProblem &problem, OverlapSolution &solution) {
  while (solution.estimate.deviceBytes > problem.deviceBudget) {
    std::vector<int64_t> bytes =
        sumBytes(problem, solution.fetched, solution.accumulated);
    auto most = llvm::max_element(bytes);
    size_t piece = most - bytes.begin();
    solution.estimate.deviceBytes = *most;
    if (*most <= problem.deviceBudget)
      break;
    if ((problem.ahead || !shortenFetch(problem, piece, solution)) &&
        (problem.inFlight || !shortenReduction(problem, piece, solution)))
      return false;
  }
  solution.estimate =
      ::estimate(problem, solution.fetched, solution.accumulated);
  return true;
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

static bool isAsFast(const OverlapSolution &a, const OverlapSolution &b) {
  return a.estimate.seconds <= b.estimate.seconds * (1 + kSearch.sameTime);
}

/// Returns the plan with the least slack, of doubling ones, that loses no time.
static OverlapSolution planJustInTime(const OverlapProblem &problem,
                                      const OverlapSolution &loose) {
  OverlapTimeline timeline =
      simulateOverlap(problem, loose.fetched, loose.accumulated);
  double slack = 0;
  for (int trial = 0; trial < kSearch.slackTrials; ++trial) {
    OverlapSolution solution = planJustInTime(problem, loose, timeline, slack);
    if (isAsFast(solution, loose))
      return solution;
    slack = slack == 0 ? timeline.seconds * kSearch.firstSlack : 2 * slack;
  }
  return loose;
}

/// Returns the given number, or the numbers up to `most` that are compared.
static llvm::SmallVector<size_t> getChoices(std::optional<size_t> given,
                                            size_t most) {
  if (given)
    return {*given};
  llvm::SmallVector<size_t> choices;
  for (size_t i = 1; i <= std::min<size_t>(most, kSearch.comparedDistances);
       ++i)
    choices.push_back(i);
  return choices;
}

llvm::Expected<OverlapSolution>
fcdp::planOverlap(const OverlapProblem &problem) {
  if (llvm::Error error = problem.check())
    return std::move(error);
  std::vector<OverlapSolution> solutions;
  for (size_t ahead : getChoices(problem.ahead, problem.mostAhead))
    for (size_t inFlight : getChoices(problem.inFlight, problem.mostInFlight))
      solutions.push_back(overlapUniformly(problem, ahead, inFlight));
  OverlapSolution loose =
      overlapUniformly(problem, problem.ahead.value_or(problem.mostAhead),
                       problem.inFlight.value_or(problem.mostInFlight));
  solutions.push_back(planJustInTime(problem, loose));
  solutions.push_back(std::move(loose));
  OverlapSolution least = overlapUniformly(problem, problem.ahead.value_or(0),
                                           problem.inFlight.value_or(1));
  int64_t smallest = least.estimate.deviceBytes;
  solutions.push_back(std::move(least));

  llvm::erase_if(solutions, [&](OverlapSolution &solution) {
    return !fit(problem, solution);
  });
  if (solutions.empty())
    return makeError("no schedule fits: the smallest takes %lld bytes of "
                     "device memory of %lld",
                     (long long)smallest, (long long)problem.deviceBudget);
  const OverlapSolution fastest =
      *llvm::min_element(solutions, [](const auto &a, const auto &b) {
        return a.estimate.seconds < b.estimate.seconds;
      });
  llvm::erase_if(solutions, [&](const OverlapSolution &solution) {
    return !isAsFast(solution, fastest);
  });
  return *llvm::min_element(solutions, [](const auto &a, const auto &b) {
    return a.estimate.deviceBytes < b.estimate.deviceBytes;
  });
}
