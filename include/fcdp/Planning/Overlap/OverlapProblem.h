// SPDX-License-Identifier: Apache-2.0
//
// The problem of overlap: a function's compute and the transfers beside it; and
// its solution, when each transfer is issued. It does not use the IR.
#pragma once

#include "fcdp/Planning/SearchConstants.h"
#include "fcdp/Simulation/Simulator.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace fcdp {

/// One function of a step: pieces of compute in their order, and transfers that
/// run beside them.
struct OverlapProblem {
  struct Piece {
    /// Seconds of compute.
    double seconds = 0;
    /// Bytes on the device that do not depend on the decisions; their greatest
    /// sum in this piece.
    int64_t bytes = 0;
    /// Whether fetches may be issued, and results accumulated, before it.
    bool mayFetch = false, mayAccumulate = false;
    /// The part of `seconds` that takes all of the memory's bandwidth, as in
    /// Cost.
    double deviceMemory = 0;
  };
  /// A part of a transfer, which begins when the part before it is done.
  struct Stage {
    uint8_t stream = 0;
    Activity activity = Activity::interGather;
    Cost cost;
    /// Whether later parts do not wait for it, as for a store.
    bool isAside = false;
  };
  /// A transfer that brings a copy.
  struct Fetch {
    llvm::SmallVector<Stage, 3> stages;
    /// The piece that needs the copy, before which fetches may be issued, and
    /// the last piece that reads it.
    size_t needed = 0, until = 0;
    /// The first piece before which all operands of the fetch are available.
    size_t earliest = 0;
    /// Bytes that are in use from the fetch's issue to the end of `until`.
    int64_t bytes = 0;
  };
  /// A transfer that reduces gradients.
  struct Reduction {
    llvm::SmallVector<Stage, 2> stages;
    /// The piece after which it is issued.
    size_t issued = 0;
    /// The first and the last piece before which its result may be accumulated,
    /// both after `issued`. The number of pieces means the end.
    size_t earliest = 0, latest = 0;
    /// Bytes that are in use until the result is accumulated.
    int64_t bytes = 0;
  };

  std::vector<Piece> pieces;
  /// Fetches in the order of their use; none overtakes another.
  std::vector<Fetch> fetches;
  /// Reductions in the order of their issue.
  std::vector<Reduction> reductions;
  /// Bytes of the device.
  int64_t deviceBudget = 0;
  /// A fetch is issued at most this many pieces ahead of its use, counting
  /// pieces that may fetch.
  size_t mostAhead = kSearch.mostDistance;
  /// The greatest number of accumulate positions over which a reduction may be
  /// in flight.
  size_t mostInFlight = kSearch.mostDistance;
  /// The user's decisions, if any, in the sense of overlapUniformly.
  std::optional<size_t> ahead, inFlight;

  /// Fails on indices out of range or out of order, and on numbers that are
  /// negative or not finite.
  llvm::Error check() const;

  /// Returns the number of pieces in [from, to) that may fetch.
  size_t countAhead(size_t from, size_t to) const;
  /// Returns the number of places in (from, to] where results may be
  /// accumulated.
  size_t countInFlight(size_t from, size_t to) const;
};

struct OverlapEstimate {
  /// The time from the first begin to the last end, in seconds.
  double seconds = 0;
  /// Greatest sum over the pieces.
  int64_t deviceBytes = 0;
};

struct OverlapSolution {
  /// The piece in front of which each fetch is issued.
  std::vector<size_t> fetched;
  /// The piece before which the result of each reduction is accumulated.
  std::vector<size_t> accumulated;
  OverlapEstimate estimate;

  /// Fails if a transfer is issued too early or too late, overtakes another,
  /// contradicts a decision of the user, or exceeds the budget.
  llvm::Error verify(const OverlapProblem &problem) const;
};

/// Simulates the function. Pre: both have the problem's sizes.
OverlapEstimate estimate(const OverlapProblem &problem,
                         llvm::ArrayRef<size_t> fetched,
                         llvm::ArrayRef<size_t> accumulated);

/// Returns the solution that issues all fetches `ahead` fetch positions ahead
/// and keeps reductions in flight over `inFlight` accumulate positions, within
/// the limits of each. It may exceed the budget.
OverlapSolution overlapUniformly(const OverlapProblem &problem, size_t ahead,
                                 size_t inFlight);

} // namespace fcdp
