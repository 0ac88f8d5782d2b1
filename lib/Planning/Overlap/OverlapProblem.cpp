// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Overlap/OverlapProblem.h"
#include "fcdp/Planning/Checks.h"

#include "llvm/ADT/STLExtras.h"

using namespace fcdp;

static bool areGood(llvm::ArrayRef<OverlapProblem::Stage> stages) {
  auto isAside = [](const OverlapProblem::Stage &stage) {
    return stage.isAside;
  };
  return !llvm::all_of(stages, isAside) &&
         llvm::all_of(stages, [](const OverlapProblem::Stage &stage) {
           return stage.stream < kNumSimulatedStreams &&
                  stage.stream != kComputeStream && isGood(stage.cost);
         });
}

llvm::Error OverlapProblem::check() const {
  if (deviceBudget < 0)
    return makeError("expected a budget of 0 bytes or more");
  if (mostInFlight < 1)
    return makeError("expected reductions in flight at 1 place or more");
  for (const Piece &piece : pieces)
    if (!isDuration(piece.seconds) || !isDuration(piece.deviceMemory) ||
        piece.bytes < 0)
      return makeError("a piece of compute: expected a finite time and bytes "
                       "of 0 or more");
  size_t count = pieces.size(), needed = 0, issued = 0;
  for (const auto &[i, fetch] : llvm::enumerate(fetches)) {
    if (fetch.needed >= count || fetch.until >= count ||
        fetch.until < fetch.needed || fetch.earliest > fetch.needed ||
        fetch.needed < needed || !pieces[fetch.needed].mayFetch)
      return makeError("fetch %zu: expected to be needed by a piece that may "
                       "fetch, not in front of the fetch before, and read "
                       "until then or later",
                       i);
    if (!areGood(fetch.stages) || fetch.bytes < 0)
      return makeError("fetch %zu: expected stages on streams beside compute, "
                       "with finite costs and bytes of 0 or more",
                       i);
    needed = fetch.needed;
  }
  for (const auto &[i, reduction] : llvm::enumerate(reductions)) {
    if (reduction.issued >= count || reduction.issued < issued ||
        reduction.earliest <= reduction.issued ||
        reduction.latest < reduction.earliest || reduction.latest > count)
      return makeError(
          "reduction %zu: expected to be issued after a piece, not before "
          "the previous reduction, and accumulated later",
          i);
    if (!areGood(reduction.stages) || reduction.bytes < 0)
      return makeError("reduction %zu: expected stages on streams beside "
                       "compute, with finite costs and bytes of 0 or more",
                       i);
    issued = reduction.issued;
  }
  return llvm::Error::success();
}

size_t OverlapProblem::countAhead(size_t from, size_t to) const {
  return llvm::count_if(llvm::ArrayRef(pieces).slice(from, to - from),
                        [](const Piece &piece) { return piece.mayFetch; });
}

size_t OverlapProblem::countInFlight(size_t from, size_t to) const {
  size_t places = to > from && to == pieces.size(); // the end
  for (size_t i = from + 1; i <= to && i < pieces.size(); ++i)
    places += pieces[i].mayAccumulate;
  return places;
}

static llvm::Error verifyFetches(const OverlapProblem &problem,
                                 llvm::ArrayRef<size_t> fetched) {
  size_t before = 0;
  for (const auto &[i, issued] : llvm::enumerate(fetched)) {
    const OverlapProblem::Fetch &fetch = problem.fetches[i];
    if (issued > fetch.needed || issued < fetch.earliest || issued < before ||
        !problem.pieces[issued].mayFetch)
      return makeError("fetch %zu is issued in front of piece %zu: too early, "
                       "too late, or in front of the fetch before",
                       i, issued);
    size_t most = problem.ahead.value_or(problem.mostAhead);
    if (problem.countAhead(issued, fetch.needed) > most)
      return makeError("fetch %zu is more than %zu ahead", i, most);
    before = issued;
  }
  return llvm::Error::success();
}

static llvm::Error verifySums(const OverlapProblem &problem,
                              llvm::ArrayRef<size_t> accumulated) {
  for (const auto &[i, place] : llvm::enumerate(accumulated)) {
    const OverlapProblem::Reduction &reduction = problem.reductions[i];
    bool isPlace =
        place == problem.pieces.size() || place == reduction.earliest ||
        (place < problem.pieces.size() && problem.pieces[place].mayAccumulate);
    if (!isPlace || place < reduction.earliest || place > reduction.latest)
      return makeError("the sum of reduction %zu is accumulated before piece "
                       "%zu: too early, too late, or where it may not",
                       i, place);
    size_t most = problem.inFlight.value_or(problem.mostInFlight);
    if (problem.countInFlight(reduction.earliest, place) >= most)
      return makeError("reduction %zu is in flight over more than %zu places",
                       i, most);
  }
  return llvm::Error::success();
}

OverlapSolution fcdp::overlapUniformly(const OverlapProblem &problem,
                                       size_t ahead, size_t inFlight) {
  OverlapSolution solution;
  size_t before = 0;
  for (const OverlapProblem::Fetch &fetch : problem.fetches) {
    size_t issued = fetch.needed;
    size_t last = std::max(before, fetch.earliest);
    for (size_t i = issued, passed = 0; i > last && passed < ahead;)
      if (problem.pieces[--i].mayFetch) {
        issued = i;
        ++passed;
      }
    solution.fetched.push_back(before = issued);
  }
  for (const OverlapProblem::Reduction &reduction : problem.reductions) {
    size_t place = reduction.earliest, passed = 1;
    while (place < reduction.latest && passed < inFlight) {
      size_t next = place + 1;
      while (next < problem.pieces.size() &&
             !problem.pieces[next].mayAccumulate)
        ++next;
      if (next > reduction.latest)
        break;
      place = next;
      ++passed;
    }
    solution.accumulated.push_back(place);
  }
  solution.estimate =
      ::estimate(problem, solution.fetched, solution.accumulated);
  return solution;
}

llvm::Error OverlapSolution::verify(const OverlapProblem &problem) const {
  if (fetched.size() != problem.fetches.size() ||
      accumulated.size() != problem.reductions.size())
    return makeError("a plan of %zu fetches and %zu reductions for %zu and %zu",
                     fetched.size(), accumulated.size(), problem.fetches.size(),
                     problem.reductions.size());
  if (llvm::Error error = verifyFetches(problem, fetched))
    return error;
  if (llvm::Error error = verifySums(problem, accumulated))
    return error;
  if (problem.ahead || problem.inFlight) {
    OverlapSolution given = overlapUniformly(problem, problem.ahead.value_or(0),
                                             problem.inFlight.value_or(1));
    if ((problem.ahead && fetched != given.fetched) ||
        (problem.inFlight && accumulated != given.accumulated))
      return makeError("the given distance is not kept");
  }
  OverlapEstimate taken = ::estimate(problem, fetched, accumulated);
  if (taken.deviceBytes > problem.deviceBudget)
    return makeError("the plan takes %lld bytes of device memory of %lld",
                     (long long)taken.deviceBytes,
                     (long long)problem.deviceBudget);
  return llvm::Error::success();
}
