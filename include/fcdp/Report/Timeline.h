// SPDX-License-Identifier: Apache-2.0
//
// One simulated step in time: what each stream does, and what memory holds.
#pragma once

#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Report/StepPrediction.h"

namespace fcdp {

/// Times are in seconds from the step's beginning; streams other than compute
/// begin part of it before that.
struct Timeline {
  struct Span {
    Stream stream;
    Activity activity;
    /// Which of `functions` issued it.
    uint32_t function;
    mlir::Operation *op;
    double begin, end;
  };
  struct Function {
    Role role;
    /// When the compute stream is done with it.
    double end;
  };
  /// What a rank's device holds from `time` on.
  struct Memory {
    double time;
    HeldBytes held;
  };

  double seconds = 0;
  /// When the first span begins; 0 or less.
  double begin = 0;
  /// Of one stream they follow each other.
  std::vector<Span> spans;
  /// Of the step, in their order.
  std::vector<Function> functions;
  /// In ascending order of time. The plan gives memory by the order of issue:
  /// what an operation of the compute stream finds in use, it does from the end
  /// of the one before; what is in use for a moment between two is counted to
  /// the second.
  std::vector<Memory> memory;
};

/// Lays out `step`, simulated from `module`, in phase scheduled or planned. An
/// error is reported.
mlir::FailureOr<Timeline> makeTimeline(mlir::ModuleOp module,
                                       const SimulatedStep &step);

/// `aten.mm.default`, or `all_gather` and the unit whose bucket it is for.
std::string getLabel(mlir::Operation *op);

} // namespace fcdp
