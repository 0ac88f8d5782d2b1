// SPDX-License-Identifier: Apache-2.0
//
// Describes a measured step in the form of a simulated one.
#pragma once

#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Report/StepReport.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace fcdp {

/// The contents of a trace from fcdp-run --trace: the spans of the slowest rank
/// in the file.
struct MeasuredTrace {
  struct Span {
    Stream stream;
    std::string name;
    /// The stream that is waited for; none for work.
    std::optional<Stream> waitsFor;
    /// Seconds from the step's beginning.
    double begin, end;
    /// Line of the span in the file.
    unsigned line;
    int64_t rank;
  };

  /// The file's name.
  std::string file;
  int64_t rank = 0;
  /// Spans. The spans of one stream are in order.
  std::vector<Span> spans;
  /// Duration of the step on the slowest rank.
  double seconds = 0;
  /// Seconds of each rank; empty if only `seconds` was written.
  std::vector<double> secondsOfRanks;
  /// Bytes that one node sends and copies.
  LinkBytes bytes;
  /// Peaks of a rank's device memory and of a node's host memory.
  int64_t deviceBytes = 0, hostBytes = 0;
};

/// Parses a trace. The error reads `FILE:LINE: error: ...`.
llvm::Expected<MeasuredTrace> parseTrace(llvm::MemoryBufferRef text);
llvm::Expected<MeasuredTrace> loadTrace(llvm::StringRef file);

/// Returns the spread of the ranks' times, or none if the trace does not have
/// the times of all ranks.
std::optional<RankSpread> getSpread(const MeasuredTrace &trace);

/// Returns the measured step. `module` must be the plan that ran, with the mesh
/// of `cluster`. Times are from the trace; tokens and floating-point operations
/// are from the plan. Time in which the compute stream waits counts as exposed
/// to the work on the stream that it waits for or, if that stream is idle, to
/// the work on any other stream. The rest is bubble. Returns an error if the
/// trace does not match the plan.
llvm::Expected<SimulatedStep> tellMeasured(mlir::ModuleOp module,
                                           const MeasuredTrace &trace,
                                           const Cluster &cluster);

} // namespace fcdp
