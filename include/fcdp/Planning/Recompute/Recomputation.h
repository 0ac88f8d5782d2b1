// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace fcdp {

/// A forward pass whose values the backward pass needs. Each value is either
/// kept or computed again. It does not use the IR.
struct RecomputationProblem {
  /// The ways to provide an operation's values where they are needed again.
  enum class Choice { Keep, Any, Recompute };
  struct Op {
    /// The cost of running it once more, in the caller's unit.
    double cost = 0;
    /// Values that it reads, except those that are always available
    /// (parameters, inputs of the step).
    llvm::SmallVector<size_t, 4> inputs;
    Choice choice = Choice::Any;
  };
  struct Value {
    int64_t bytes = 0;
    /// The operation that computes it.
    size_t producer = 0;
    /// Whether the backward pass reads it.
    bool isNeeded = false;
  };
  /// The operations in program order.
  llvm::SmallVector<Op> ops;
  llvm::SmallVector<Value> values;

  /// Fails on negative or infinite numbers, on values without a producer, and
  /// on inputs that a later operation computes.
  llvm::Error check() const;
};

struct RecomputationSolution {
  /// Whether each operation runs again.
  llvm::SmallVector<bool> isRecomputed;
  /// Sum of the bytes of the values that are kept.
  int64_t keptBytes = 0;
  /// Sum of the costs of the operations that run again.
  double cost = 0;

  /// Fails if an operation runs again without need or against its choice, or if
  /// a sum is wrong.
  llvm::Error verify(const RecomputationProblem &problem) const;
};

/// Returns the solution in which the operations of `chosen`, and those whose
/// choice is `Recompute`, run again where their values are needed.
RecomputationSolution evaluate(const RecomputationProblem &problem,
                               llvm::ArrayRef<bool> chosen);

/// Returns the cheapest of the solutions that keep the fewest bytes: a minimum
/// cut, as in Jain et al. 2020 (arXiv 1910.02653, section 3) without its time
/// steps.
RecomputationSolution keepLeast(const RecomputationProblem &problem);

/// Keeps at most `budget` bytes at a low cost. It takes the cheapest minimum
/// cut, over all prices per byte, that fits, and then drops recomputation that
/// is not needed to fit. The result may not be optimal, since the exact problem
/// is a knapsack. If nothing fits, it returns keepLeast's solution.
RecomputationSolution keepWithin(const RecomputationProblem &problem,
                                 int64_t budget);

} // namespace fcdp
