// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Activations/ActivationProblem.h"

#include "fcdp/Planning/Checks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace fcdp;

/// The factor on the time that is planned for a load. Compute waits for a load
/// that takes longer than expected; one that is a little early only takes
/// memory for a little longer.
static constexpr double kLoadMargin = 1.25;

/// Seconds below which waiting does not count: the cost model is not more
/// exact.
static constexpr double kNoTime = 1e-9;

llvm::Error ActivationProblem::check() const {
  for (double time : seconds)
    if (!isDuration(time))
      return makeError("expected times of operations from 0 on, got %g", time);
  size_t last = 0;
  for (auto [i, value] : llvm::enumerate(values)) {
    if (value.bytes <= 0 || !isDuration(value.storeSeconds) ||
        !isDuration(value.loadSeconds))
      return makeError("value %zu: expected bytes and times of copies", i);
    if (value.made < last)
      return makeError("value %zu: expected values in the order in which they "
                       "are made",
                       i);
    last = value.made;
    if (value.lastForward < value.made ||
        value.firstBackward <= value.lastForward ||
        value.firstBackward >= seconds.size())
      return makeError("value %zu: expected its uses after the operation that "
                       "makes it, those of the forward pass first",
                       i);
  }
  return llvm::Error::success();
}

size_t ActivationSolution::countStored() const {
  return llvm::count_if(
      moves, [](const ActivationMove &move) { return move.isStored; });
}

llvm::Error ActivationSolution::verify(const ActivationProblem &problem) const {
  if (moves.size() != problem.values.size())
    return makeError("expected %zu values, got %zu", problem.values.size(),
                     moves.size());
  int64_t bytes = 0;
  double exposed = 0;
  for (size_t i = 0; i < moves.size(); ++i) {
    const ActivationMove &move = moves[i];
    const ActivationProblem::Value &value = problem.values[i];
    if (!move.isStored)
      continue;
    if (move.dropped <= value.lastForward || move.loaded <= move.dropped ||
        move.loaded > value.firstBackward)
      return makeError("value %zu is dropped before operation %zu and loaded "
                       "before operation %zu",
                       i, move.dropped, move.loaded);
    bytes += value.bytes;
    exposed += move.exposedSeconds;
  }
  if (bytes != storedBytes || std::abs(exposed - exposedSeconds) > kNoTime)
    return makeError("expected sums of %lld bytes and %g seconds",
                     static_cast<long long>(bytes), exposed);
  return llvm::Error::success();
}

namespace {
class Placer {
public:
  Placer(const ActivationProblem &problem, llvm::ArrayRef<bool> chosen);
  ActivationSolution run();

private:
  void placeDrops();
  void placeLoads();
  void keepUseless();
  /// Returns the first operation that does not begin before `time`.
  size_t findFrom(double time) const {
    return llvm::lower_bound(begins, time) - begins.begin();
  }

  const ActivationProblem &problem;
  /// When each operation begins if compute waits for nothing, and the end.
  std::vector<double> begins;
  std::vector<double> stored;
  ActivationSolution solution;
};
} // namespace

Placer::Placer(const ActivationProblem &problem, llvm::ArrayRef<bool> chosen)
    : problem(problem), stored(problem.values.size()) {
  double now = 0;
  for (double time : problem.seconds) {
    begins.push_back(now);
    now += time;
  }
  solution.moves.resize(problem.values.size());
  for (auto [move, isChosen] : llvm::zip_equal(solution.moves, chosen))
    move.isStored = isChosen;
}

void Placer::placeDrops() {
  double idle = 0;
  for (auto [i, value] : llvm::enumerate(problem.values)) {
    ActivationMove &move = solution.moves[i];
    if (!move.isStored)
      continue;
    double made = begins[value.made] + problem.seconds[value.made];
    idle = std::max(made, idle) + value.storeSeconds;
    stored[i] = idle;
    // The copy back needs some time, too, so compute waits rather than have the
    // value on the device all the time.
    size_t latest = std::max(value.lastForward + 1, value.firstBackward - 1);
    move.dropped = std::clamp(findFrom(idle), value.lastForward + 1, latest);
    move.exposedSeconds += std::max(0.0, idle - begins[move.dropped]);
  }
}

/// Goes from the last load to the first, because a load must be complete when
/// the next one begins.
void Placer::placeLoads() {
  llvm::SmallVector<size_t> order;
  for (size_t i = 0; i < problem.values.size(); ++i)
    if (solution.moves[i].isStored)
      order.push_back(i);
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::tuple(problem.values[b].firstBackward, a) <
           std::tuple(problem.values[a].firstBackward, b);
  });
  double next = std::numeric_limits<double>::max();
  for (size_t i : order) {
    const ActivationProblem::Value &value = problem.values[i];
    ActivationMove &move = solution.moves[i];
    double needed = std::min(begins[value.firstBackward], next);
    next = needed - kLoadMargin * value.loadSeconds;
    // The last operation that does not begin after that time.
    size_t from =
        llvm::upper_bound(begins, std::max(next, 0.0)) - begins.begin();
    move.loaded =
        std::clamp(from - 1, std::min(move.dropped + 1, value.firstBackward),
                   value.firstBackward);
    double begin = std::max(begins[move.loaded], stored[i]);
    if (begin > next)
      move.exposedSeconds += std::max(0.0, begin + value.loadSeconds -
                                               begins[value.firstBackward]);
  }
}

/// Keeps values whose memory would not be free for any operation.
void Placer::keepUseless() {
  for (ActivationMove &move : solution.moves)
    if (!move.isStored || move.loaded <= move.dropped)
      move = {};
}

ActivationSolution Placer::run() {
  placeDrops();
  placeLoads();
  keepUseless();
  for (auto [move, value] : llvm::zip_equal(solution.moves, problem.values)) {
    if (!move.isStored)
      continue;
    solution.storedBytes += value.bytes;
    solution.exposedSeconds += move.exposedSeconds;
  }
  return std::move(solution);
}

ActivationSolution fcdp::placeMoves(const ActivationProblem &problem,
                                    llvm::ArrayRef<bool> chosen) {
  return Placer(problem, chosen).run();
}

llvm::SmallVector<bool> fcdp::chooseHidden(const ActivationProblem &problem) {
  llvm::SmallVector<bool> chosen(problem.values.size(), false);
  for (size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = true;
    ActivationSolution solution = placeMoves(problem, chosen);
    chosen[i] =
        solution.moves[i].isStored && solution.exposedSeconds <= kNoTime;
  }
  return chosen;
}

llvm::SmallVector<size_t>
fcdp::orderByExposure(const ActivationProblem &problem) {
  llvm::SmallVector<bool> hidden = chooseHidden(problem);
  llvm::SmallVector<double> price(hidden.size());
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (hidden[i])
      continue;
    llvm::SmallVector<bool> with = hidden;
    with[i] = true;
    ActivationSolution solution = placeMoves(problem, with);
    price[i] = solution.moves[i].isStored
                   ? solution.exposedSeconds / double(problem.values[i].bytes)
                   : std::numeric_limits<double>::max();
  }
  llvm::SmallVector<size_t> order =
      llvm::to_vector(llvm::seq<size_t>(0, problem.values.size()));
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::tuple(!hidden[a], price[a], a) <
           std::tuple(!hidden[b], price[b], b);
  });
  return order;
}
