// SPDX-License-Identifier: Apache-2.0
//
// Runs of operations that a device can repeat in one call.
//
// Only compute's own operations are in a graph: collectives, copies to the
// host, events and waits are issued between graphs, in the plan's order. So
// work that is in flight when a function ends stays in flight, and a failed
// collective is found in the same way as without graphs.
#pragma once

#include "memory/Pool.h"
#include "operators/PreparedOp.h"
#include "streams/GraphCapture.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace fcdp {

/// Operations [first, end) of the plan.
struct OpRange {
  size_t first, end;
};

/// Returns the longest runs of operations, each within one function, that may
/// be in a graph: calls that the compiler marks as replayable, and other work
/// of compute in a micro-batch. Runs that are too short to be faster as a graph
/// are left out.
std::vector<OpRange> findSegments(const StepPlan &plan);

/// A run of operations. It runs them one by one, captures them at the same
/// time, or launches a captured graph. In the last case the host only updates
/// the places of results and frees memory.
///
/// A graph contains addresses. It fits if external operands, and the memory
/// that the pool has planned for the operations' allocations, are at the same
/// addresses as during the capture. If no graph fits, another one is captured,
/// up to a limit. Operations run one by one in a step that the pool records, in
/// a step whose operations or allocations differ from the recorded ones, and if
/// an operand is on another device. A segment that allocated memory from the
/// system during its capture runs them one by one from then on. A graph whose
/// capture made other allocations than the recorded step is not used again,
/// because it is not known how long its results keep their places.
///
/// Used by the issuing thread only.
class GraphSegment {
public:
  /// `ops` are the operations of `range`. All arguments must outlive the
  /// segment.
  GraphSegment(const StepPlan &plan, OpRange range,
               std::vector<std::unique_ptr<PreparedOp>> ops,
               GraphCapture &capture, ResultPool &pool);

  /// Runs the operation at `position` of the range. Operations run in order.
  /// Throws the operation's errors, and std::runtime_error.
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
    /// Results that are used outside of the graph, as tensors over memory that
    /// they do not own.
    std::vector<at::Tensor> results;
  };
  enum class Mode { OneByOne, Capturing, Replaying };

  void begin(const StepState &state);
  void end(StepState &state);
  std::vector<const void *> findOperands(const StepState &state) const;
  /// Returns whether an operand is on another device. A graph would keep the
  /// value that a number on the host has during the capture.
  bool hasForeignOperand(const StepState &state) const;
  bool fits(const Captured &captured, const StepState &state) const;
  /// Returns the number of captured graphs for the pool's current places.
  size_t countCurrent() const;
  void capture(size_t position, StepState &state);
  void replay(size_t position, StepState &state);
  void keepResults(const StepState &state);

  const std::vector<std::unique_ptr<PreparedOp>> ops;
  GraphCapture &capturing;
  ResultPool &pool;
  /// Transient slots: those that are read but not written here, those that are
  /// written here and not dropped, and those that each operation drops.
  std::vector<size_t> operandSlots, resultSlots;
  std::vector<std::vector<size_t>> freed;
  std::vector<Captured> captured;
  /// The pool's numbers of placed allocations and of allocations from the
  /// system when the capture began.
  size_t firstPlaced = 0;
  uint64_t systemBefore = 0;
  bool isRefused = false;
  Mode mode = Mode::OneByOne;
  /// The graph that is being captured or replayed.
  size_t current = 0;
};

} // namespace fcdp
