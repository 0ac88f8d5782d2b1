// SPDX-License-Identifier: Apache-2.0
//
// The timeline of a simulated step: the work on each stream and the memory in
// use.
#pragma once

#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Report/StepPrediction.h"

namespace fcdp {

/// A timeline. Times are in seconds from the step's beginning. Streams other
/// than compute may begin work earlier, at negative times.
struct Timeline {
  struct Span {
    Stream stream;
    Activity activity;
    /// Index in `functions` of the function that issued it.
    uint32_t function;
    mlir::Operation *op;
    double begin, end;
  };
  struct Function {
    Role role;
    /// The time at which the compute stream finishes the function.
    double end;
  };
  /// Device memory of a rank that is in use from `time` on.
  struct Memory {
    double time;
    BytesByUse inUse;
  };

  double seconds = 0;
  /// Begin of the first span; 0 or less.
  double begin = 0;
  /// Spans. The spans of one stream are in order and do not overlap.
  std::vector<Span> spans;
  /// The functions of the step, in order.
  std::vector<Function> functions;
  /// Samples in ascending order of time. The plan assigns memory in the order
  /// of issue, so the memory in use at a compute operation counts from the end
  /// of the compute operation before it. Memory that is in use only between two
  /// of them counts for the second.
  std::vector<Memory> memory;
};

/// Makes the timeline of `step`, which was simulated from `module`, in phase
/// scheduled or planned. Reports errors through the context.
mlir::FailureOr<Timeline> makeTimeline(mlir::ModuleOp module,
                                       const SimulatedStep &step);

/// Returns a label: `aten.mm.default`, or `all_gather` and the unit of its
/// bucket.
std::string getLabel(mlir::Operation *op);

} // namespace fcdp
