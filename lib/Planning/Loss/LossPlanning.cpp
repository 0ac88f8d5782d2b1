// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Loss/LossPlanning.h"

#include "fcdp/Planning/Checks.h"
#include "fcdp/Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fcdp;

using Head = LossProblem::Head;
using Rows = LossProblem::Rows;

/// The bytes of logits in the chunks that are tried: from those of a chunk that
/// is still a large product (256 rows of a vocabulary of 32,000 in f32) to
/// those with which a sum over chunks is read and written seldom.
static constexpr int64_t kFewestBytes = int64_t(32) << 20,
                         kMostBytes = int64_t(512) << 20;

/// The fewest rows of a chunk that the budget does not demand.
static constexpr int64_t kFewestRows = 64;

/// The bytes below which less memory is not worth other last bits of the head's
/// gradient, and below which plans need the same memory.
static constexpr int64_t kFewBytes = int64_t(64) << 20;

/// The cost of a chunk besides its work: a dozen kernels are launched, which
/// takes some 10 us. An A100 moves 16 MB in that time.
static constexpr double kChunkCost = 16e6;

/// How many times the cost of the whole, and of the cheapest chunks, a loss may
/// have to need less memory. Blocks of classes have four products instead of
/// three. On a CPU, chunks were measured to take 0.4 to 0.8 of the time of the
/// whole, so that this allows for estimates that are too high.
static constexpr double kMostCost = 1.5;

LossShape LossProblem::getShape(const LossChunk &chunk) const {
  LossShape chunked = shape;
  chunked.chunk = chunk.rows;
  chunked.block = chunk.block;
  return chunked;
}

int64_t LossProblem::getPeak(const LossChunk &chunk) const {
  if (chunk.rows == 0)
    return wholePeak;
  return std::max(otherPeak, atLoss + LossWorkspace(getShape(chunk)).bytes);
}

llvm::Error LossProblem::check() const {
  if (shape.rows <= 0 || shape.vocabulary <= 0 || shape.hidden <= 0 ||
      shape.chunk < 0)
    return makeError("expected a loss of rows and classes, got %lld x %lld",
                     static_cast<long long>(shape.rows),
                     static_cast<long long>(shape.vocabulary));
  if (otherPeak < 0 || atLoss < 0 || states < 0 || wholePeak < otherPeak ||
      (budget && *budget < 0))
    return makeError("expected bytes that are not negative, and a whole loss "
                     "that takes some");
  if (!std::isfinite(wholeCost) || wholeCost < 0)
    return makeError("expected a finite cost, got %g", wholeCost);
  return llvm::Error::success();
}

llvm::Error LossSolution::verify(const LossProblem &problem) const {
  if (chunk.rows < 0 || chunk.rows > problem.shape.rows ||
      (chunk.rows != problem.shape.rows && chunk.rows % kLossRowMultiple != 0))
    return makeError("expected a multiple of 16 rows in a chunk, got %lld",
                     static_cast<long long>(chunk.rows));
  if (chunk.rows == 0 ? chunk.block != 0
                      : chunk.block > problem.getShape(chunk).getLargestBlock())
    return makeError("expected smaller blocks of classes, got %lld",
                     static_cast<long long>(chunk.block));
  if (peak != problem.getPeak(chunk))
    return makeError("expected a peak of %lld, got %lld",
                     static_cast<long long>(problem.getPeak(chunk)),
                     static_cast<long long>(peak));
  return llvm::Error::success();
}

/// Returns chunks of almost equal length with at most `most` rows.
static int64_t divideRows(int64_t rows, int64_t most) {
  if (most >= rows)
    return rows;
  int64_t blocks = llvm::divideCeil(rows, kLossRowMultiple),
          each = std::max<int64_t>(most / kLossRowMultiple, 1),
          chunks = llvm::divideCeil(blocks, each);
  return std::min<int64_t>(rows,
                           kLossRowMultiple * llvm::divideCeil(blocks, chunks));
}

namespace {
class Planner {
public:
  explicit Planner(const LossProblem &problem) : problem(problem) {
    addChunks();
  }
  LossSolution plan() const;

private:
  LossSolution planWithin() const;
  void addChunks();
  void addRows(int64_t rows);
  void add(LossChunk chunk);
  LossSolution whole() const;
  bool fits(const LossSolution &one) const {
    return !problem.budget || problem.states + one.peak <= *problem.budget;
  }
  const LossSolution *
  findCheapest(int64_t peak = std::numeric_limits<int64_t>::max()) const;
  const LossSolution &findBest() const;
  const LossSolution &findSmallest() const;
  std::string describeBudget(const LossSolution &one) const;

  const LossProblem &problem;
  llvm::SmallVector<LossSolution> solutions;
};
} // namespace

void Planner::add(LossChunk chunk) {
  const int64_t chunks = llvm::divideCeil(problem.shape.rows, chunk.rows);
  solutions.push_back({chunk, problem.getPeak(chunk),
                       problem.getCost(problem.getShape(chunk)) +
                           static_cast<double>(chunks) * kChunkCost,
                       ""});
}

void Planner::addRows(int64_t rows) {
  const int64_t block = problem.getShape({rows, 0}).getLargestBlock();
  if (problem.head != Head::Blocks || block == 0)
    add({rows, 0});
  if (problem.head != Head::Sum && block != 0)
    add({rows, block});
}

void Planner::addChunks() {
  const LossShape &shape = problem.shape;
  if (problem.rows == Rows::Given)
    return addRows(divideRows(shape.rows, shape.chunk));
  const int64_t rowBytes = shape.vocabulary * shape.lossBytes();
  auto addMost = [&](int64_t most) {
    int64_t rows = divideRows(shape.rows, most);
    if (solutions.empty() || solutions.back().chunk.rows != rows)
      addRows(rows);
  };
  for (int64_t bytes = kMostBytes; bytes >= kFewestBytes; bytes /= 2)
    addMost(std::max(kFewestRows, bytes / rowBytes));
  for (int64_t rows = kFewestRows; rows >= kLossRowMultiple; rows /= 2)
    if (rows * rowBytes < kFewestBytes ||
        rows <= solutions.back().chunk.rows / 2)
      addMost(rows);
}

LossSolution Planner::whole() const {
  return {{}, problem.wholePeak, problem.wholeCost, ""};
}

/// Returns the cheapest solution whose peak is at most `peak`, or null.
const LossSolution *Planner::findCheapest(int64_t peak) const {
  const LossSolution *best = nullptr;
  for (const LossSolution &one : solutions)
    if (one.peak <= peak && (!best || one.cost < best->cost))
      best = &one;
  return best;
}

const LossSolution &Planner::findSmallest() const {
  return *llvm::min_element(
      solutions, [](const LossSolution &one, const LossSolution &other) {
        return one.peak < other.peak;
      });
}

std::string Planner::describeBudget(const LossSolution &one) const {
  return llvm::formatv("{0} of {1} of device memory",
                       formatBytes(problem.states + one.peak),
                       formatBytes(*problem.budget))
      .str();
}

/// Returns the cheapest of the solutions that need almost the least memory,
/// among those that do not cost much more than others.
const LossSolution &Planner::findBest() const {
  double leastCost = findCheapest()->cost;
  const LossSolution *smallest = nullptr;
  auto isCandidate = [&](const LossSolution &one) {
    return one.cost <= kMostCost * leastCost &&
           one.chunk.rows >= std::min(kFewestRows, solutions[0].chunk.rows);
  };
  for (const LossSolution &one : solutions)
    if (isCandidate(one) && (!smallest || one.peak < smallest->peak))
      smallest = &one;
  if (!smallest)
    return findSmallest();
  const LossSolution *best = smallest;
  for (const LossSolution &one : solutions)
    if (isCandidate(one) && one.peak <= smallest->peak + kFewBytes &&
        one.cost < best->cost)
      best = &one;
  return *best;
}

/// Returns the solution whose loss fits the budget, which the whole does not.
LossSolution Planner::planWithin() const {
  const LossSolution *found = findCheapest(*problem.budget - problem.states);
  LossSolution chosen = found ? *found : findSmallest();
  chosen.reason = "the whole loss needs at least " + describeBudget(whole());
  if (!found)
    chosen.reason += ", and these chunks " + describeBudget(chosen);
  return chosen;
}

LossSolution Planner::plan() const {
  LossSolution all = whole();
  if (problem.rows == Rows::Given) {
    // With a budget, memory that is free costs nothing.
    const LossSolution *found =
        problem.budget ? findCheapest(*problem.budget - problem.states)
                       : nullptr;
    return found ? *found : findBest();
  }
  if (!fits(all))
    return planWithin();
  LossSolution chosen = findBest();
  const int64_t less = all.peak - chosen.peak;
  if (less <= kFewBytes)
    all.reason = llvm::formatv("chunks need {0} less of {1} at the peak",
                               formatBytes(std::max<int64_t>(less, 0)),
                               formatBytes(all.peak))
                     .str();
  else if (chosen.cost > kMostCost * all.cost)
    all.reason = llvm::formatv("chunks cost {0:f2} times as much",
                               chosen.cost / all.cost)
                     .str();
  else
    chosen.reason =
        llvm::formatv("the peak of results falls from {0} to {1}",
                      formatBytes(all.peak), formatBytes(chosen.peak))
            .str();
  return all.reason.empty() ? chosen : all;
}

LossSolution fcdp::planLoss(const LossProblem &problem) {
  return Planner(problem).plan();
}
