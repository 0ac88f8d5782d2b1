// SPDX-License-Identifier: Apache-2.0
//
// Operations in a row that a device can do again by one call.
//
// Only compute's own operations are in a graph: collectives, copies to the
// host, events and waits are issued between graphs, as the plan has them. So
// what is in flight over a function's end stays in flight, and a collective
// that fails is found as it is without graphs.
#pragma once

#include "core/GraphCapture.h"
#include "memory/Pool.h"
#include "operators/PreparedOp.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace fcdp {

/// Operations [first, end) of the plan.
struct OpRange {
  size_t first, end;
};

/// The longest runs of operations of one function each that may be in a graph:
/// calls that the compiler says are replayable, and what else compute does by
/// itself in a micro-batch. Short ones, for which it does not pay, are left
/// out.
std::vector<OpRange> findSegments(const StepPlan &plan);

/// Runs its operations one by one, captures them while it does so, or launches
/// a captured graph. In the last case the host only updates the places of
/// results and frees memory.
///
/// A graph contains addresses. It fits if external operands, and the memory
/// that the pool has planned for the operations' allocations, are at the same
/// addresses as during the capture. If no graph fits, another one is captured,
/// up to a limit. In a step that the pool records, or that runs other
/// operations or makes other allocations than the recorded one, they run one by
/// one, and so they do if an operand is on another device. The same holds from
/// then on for a segment that took memory from the system during its capture. A
/// graph whose capture made other allocations than the recorded step is not
/// used again: nobody knows how long its results keep their places.
///
/// Used by the issuing thread only.
class GraphSegment {
public:
  /// `ops` are those of `range`. All must outlive it.
  GraphSegment(const StepPlan &plan, OpRange range,
               std::vector<std::unique_ptr<PreparedOp>> ops,
               GraphCapture &capture, ResultPool &pool);

  /// The operation at `position` of the range; they run in order. Throws what
  /// the operation does, and std::runtime_error.
  void run(size_t position, StepState &state);

private:
  struct Captured {
    std::unique_ptr<ComputeGraph> graph;
    /// Addresses of external operands, or null.
    std::vector<const void *> operands;
    /// Addresses of the pool's allocations, and the number that each operation
    /// makes or skips.
    std::vector<const std::byte *> memory;
    std::vector<size_t> allocations;
    /// The recording of the pool that the places come from.
    size_t recording = 0;
    bool isExact = true;
    /// Results that are used outside, over memory that others own.
    std::vector<at::Tensor> results;
  };
  enum class Mode { OneByOne, Capturing, Replaying };

  void begin(const StepState &state);
  void end(StepState &state);
  std::vector<const void *> findOperands(const StepState &state) const;
  /// A number on the host is in the graph as it is during the capture.
  bool hasForeignOperand(const StepState &state) const;
  bool fits(const Captured &captured, const StepState &state) const;
  /// Returns how many graphs of the pool's present places are captured.
  size_t countCurrent() const;
  void capture(size_t position, StepState &state);
  void replay(size_t position, StepState &state);
  void keepResults(const StepState &state);

  const std::vector<std::unique_ptr<PreparedOp>> ops;
  GraphCapture &capturing;
  ResultPool &pool;
  /// Transient slots: read but not written here, written here and not dropped,
  /// and dropped by each operation.
  std::vector<size_t> operandSlots, resultSlots;
  std::vector<std::vector<size_t>> freed;
  std::vector<Captured> captured;
  /// Allocations that the pool had placed, and that it had asked the system
  /// for, when the capture began.
  size_t firstPlaced = 0;
  uint64_t systemBefore = 0;
  bool isRefused = false;
  Mode mode = Mode::OneByOne;
  /// The one that is captured or replayed, while it is.
  size_t current = 0;
};

} // namespace fcdp
