// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Recompute/Recomputation.h"

#include "MinimumCut.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

using namespace fcdp;
using Choice = RecomputationProblem::Choice;

llvm::Error RecomputationProblem::check() const {
  for (const auto &[index, value] : llvm::enumerate(values)) {
    if (value.bytes < 0)
      return llvm::createStringError(
          llvm::formatv("value {0} has {1} bytes", index, value.bytes));
    if (value.producer >= ops.size())
      return llvm::createStringError(
          llvm::formatv("value {0} has no producer", index));
  }
  for (const auto &[index, op] : llvm::enumerate(ops)) {
    if (!std::isfinite(op.cost) || op.cost < 0)
      return llvm::createStringError(
          llvm::formatv("operation {0} costs {1}", index, op.cost));
    for (size_t input : op.inputs)
      if (input >= values.size() || values[input].producer >= index)
        return llvm::createStringError(llvm::formatv(
            "operation {0} reads value {1}, which is not there", index, input));
  }
  return llvm::Error::success();
}

RecomputationSolution fcdp::evaluate(const RecomputationProblem &problem,
                                     llvm::ArrayRef<bool> chosen) {
  llvm::SmallVector<llvm::SmallVector<size_t, 2>> results(problem.ops.size());
  llvm::SmallVector<bool> isNeeded;
  for (const auto &[index, value] : llvm::enumerate(problem.values)) {
    results[value.producer].push_back(index);
    isNeeded.push_back(value.isNeeded);
  }
  RecomputationSolution solution;
  solution.isRecomputed.assign(problem.ops.size(), false);
  // Readers come after the values that they read.
  for (size_t index = problem.ops.size(); index-- > 0;) {
    const RecomputationProblem::Op &op = problem.ops[index];
    if (llvm::none_of(results[index], [&](size_t v) { return isNeeded[v]; }))
      continue;
    if (!chosen[index] && op.choice != Choice::Recompute) {
      for (size_t value : results[index])
        if (isNeeded[value])
          solution.keptBytes += problem.values[value].bytes;
      continue;
    }
    solution.isRecomputed[index] = true;
    solution.cost += op.cost;
    for (size_t input : op.inputs)
      isNeeded[input] = true;
  }
  return solution;
}

llvm::Error
RecomputationSolution::verify(const RecomputationProblem &problem) const {
  if (isRecomputed.size() != problem.ops.size())
    return llvm::createStringError(
        llvm::formatv("expected {0} decisions, got {1}", problem.ops.size(),
                      isRecomputed.size()));
  for (const auto &[index, op] : llvm::enumerate(problem.ops))
    if (isRecomputed[index] && op.choice == Choice::Keep)
      return llvm::createStringError(
          llvm::formatv("operation {0} must not run again", index));
  RecomputationSolution expected = evaluate(problem, isRecomputed);
  for (size_t index : llvm::seq<size_t>(problem.ops.size()))
    if (isRecomputed[index] != expected.isRecomputed[index])
      return llvm::createStringError(llvm::formatv(
          "operation {0} runs again {1}", index,
          isRecomputed[index] ? "without need" : "although it was not chosen"));
  if (keptBytes != expected.keptBytes || cost != expected.cost)
    return llvm::createStringError(llvm::formatv(
        "expected {0} bytes kept at a cost of {1}, got {2} and {3}",
        expected.keptBytes, expected.cost, keptBytes, cost));
  return llvm::Error::success();
}

/// Returns the solution of least cost if a kept byte costs `price`.
///
/// A value on the source's side of the cut is available in the backward pass,
/// and an operation on that side is recomputed. An edge from a value to its
/// producer is cut if the value is available but not recomputed, and an edge
/// from an operation to the sink if the operation is recomputed. The inputs of
/// a recomputed operation are available.
static RecomputationSolution cut(const RecomputationProblem &problem,
                                 double price) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  size_t values = 2, ops = values + problem.values.size();
  MinimumCut graph(ops + problem.ops.size());
  for (const auto &[index, value] : llvm::enumerate(problem.values)) {
    const RecomputationProblem::Op &producer = problem.ops[value.producer];
    if (value.isNeeded)
      graph.addEdge(MinimumCut::kSource, values + index, kNever);
    double kept = price * static_cast<double>(value.bytes);
    if (producer.choice == Choice::Keep)
      graph.addEdge(values + index, MinimumCut::kSink, kept);
    else
      graph.addEdge(values + index, ops + value.producer,
                    producer.choice == Choice::Any ? kept : kNever);
  }
  for (const auto &[index, op] : llvm::enumerate(problem.ops)) {
    if (op.choice == Choice::Keep)
      continue;
    graph.addEdge(ops + index, MinimumCut::kSink, op.cost);
    for (size_t input : op.inputs)
      graph.addEdge(ops + index, values + input, kNever);
  }
  llvm::SmallVector<bool> isOnSourceSide = graph.solve();
  return evaluate(problem, llvm::ArrayRef(isOnSourceSide).drop_front(ops));
}

RecomputationSolution fcdp::keepLeast(const RecomputationProblem &problem) {
  double all = 1;
  for (const RecomputationProblem::Op &op : problem.ops)
    all += op.cost;
  // A byte costs more than everything else. The price is a power of two, so
  // that sums of bytes times the price are exact.
  return cut(problem, std::exp2(std::ceil(std::log2(all))));
}

/// Keeps values that need not be recomputed, the most expensive first.
static RecomputationSolution fill(const RecomputationProblem &problem,
                                  RecomputationSolution solution,
                                  int64_t budget) {
  llvm::SmallVector<size_t> order;
  for (const auto &[index, op] : llvm::enumerate(problem.ops))
    if (solution.isRecomputed[index] && op.choice == Choice::Any)
      order.push_back(index);
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::make_pair(-problem.ops[a].cost, a) <
           std::make_pair(-problem.ops[b].cost, b);
  });
  for (size_t index : order) {
    llvm::SmallVector<bool> fewer = solution.isRecomputed;
    fewer[index] = false;
    RecomputationSolution other = evaluate(problem, fewer);
    if (other.keptBytes <= budget && other.cost < solution.cost)
      solution = std::move(other);
  }
  return solution;
}

RecomputationSolution fcdp::keepWithin(const RecomputationProblem &problem,
                                       int64_t budget) {
  RecomputationSolution best =
      evaluate(problem, llvm::SmallVector<bool>(problem.ops.size(), false));
  if (best.keptBytes <= budget)
    return best;
  best = keepLeast(problem);
  if (best.keptBytes > budget)
    return best;
  // The exponents of prices at which nothing and everything is recomputed.
  // After the halvings, prices are 0.2 % apart.
  double low = -64, high = 64;
  for (int step = 0; step < 16; ++step) {
    double middle = (low + high) / 2;
    RecomputationSolution other = cut(problem, std::exp2(middle));
    bool fits = other.keptBytes <= budget;
    (fits ? high : low) = middle;
    if (fits && other.cost <= best.cost)
      best = std::move(other);
  }
  return fill(problem, std::move(best), budget);
}
