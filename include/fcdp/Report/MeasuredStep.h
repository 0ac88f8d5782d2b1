// SPDX-License-Identifier: Apache-2.0
//
// A step that was run, told as a simulated one is.
#pragma once

#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Report/StepReport.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace fcdp {

/// What fcdp-run --trace wrote of a step: the spans of one rank, of those that
/// are in the file the one that took longest.
struct MeasuredTrace {
  struct Span {
    Stream stream;
    std::string name;
    /// Of a wait, the stream that it waits for; else it is work.
    std::optional<Stream> waitsFor;
    /// Seconds from the step's beginning.
    double begin, end;
    /// Of the file.
    unsigned line;
    int64_t rank;
  };

  /// The file's name.
  std::string file;
  int64_t rank = 0;
  /// Of one stream in their order.
  std::vector<Span> spans;
  /// Of the slowest rank.
  double seconds = 0;
  /// Seconds of each rank; empty if only `seconds` was written.
  std::vector<double> secondsOfRanks;
  /// Of a node.
  LinkBytes bytes;
  /// Most of a rank's device, and of a node's host memory.
  int64_t deviceBytes = 0, hostBytes = 0;
};

/// The error is `FILE:LINE: error: ...`.
llvm::Expected<MeasuredTrace> parseTrace(llvm::MemoryBufferRef text);
llvm::Expected<MeasuredTrace> loadTrace(llvm::StringRef file);

/// None if the trace does not have the times of all ranks.
std::optional<RankSpread> getSpread(const MeasuredTrace &trace);

/// The measured step, `module` being the plan that ran, whose mesh is the
/// cluster's: times are those of the trace, tokens and floating-point
/// operations those of the plan. Where compute waits it is exposed to what the
/// stream that it waits for does, or else to any other stream's work; the rest
/// is bubble. Fails where the trace is of another plan.
llvm::Expected<SimulatedStep> tellMeasured(mlir::ModuleOp module,
                                           const MeasuredTrace &trace,
                                           const Cluster &cluster);

} // namespace fcdp
