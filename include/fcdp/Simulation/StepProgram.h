// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/StepFamily.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Simulation/Simulator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace fcdp {

/// A scheduled or planned step in the form that the simulator runs.
struct StepProgram {
  struct Function {
    InstructionList instructions;
    /// The operation of each instruction.
    std::vector<mlir::Operation *> ops;
  };
  /// A function that runs in a share of a job's steps: after the update, or in
  /// place of the last micro-batch.
  struct Occasional {
    Function function;
    double share = 1;
    bool replacesLast = false;
  };
  /// The functions by role. The program of a measured step has here the
  /// functions that only some steps run, too: one function for all of a role.
  std::map<Role, Function> functions;
  std::vector<Occasional> occasional;
  /// Micro-batches per optimizer step.
  int64_t microBatches = 1;

  /// Delays the first instruction of a step by `seconds` of the host.
  void delayIssue(double seconds);
  llvm::SmallVector<const InstructionList *>
  getRun(llvm::ArrayRef<Role> roles) const;
  /// Returns the roles of a step in the order in which they run, with those
  /// that only some steps run if they are among `functions`.
  llvm::SmallVector<Role> getRoles() const;
};

/// Breakdown of the time of one optimizer step, in seconds.
struct StepTimes {
  double seconds = 0;
  /// The part of `seconds` that functions of some steps take, on average over
  /// all steps. The sums below contain all of it, too.
  double occasionalSeconds = 0;
  std::array<double, kNumActivities> busy{};
  /// The part of `busy` that is on the compute stream.
  std::array<double, kNumActivities> onCompute{};
  std::array<double, kNumActivities> exposed{};
};

/// Returns the purpose of `op` in the step.
Activity getActivity(mlir::Operation *op);

/// Makes the program of a step of `functions`; by default of those that
/// getFunctionsOf returns.
StepProgram makeStepProgram(mlir::ModuleOp module,
                            llvm::function_ref<Cost(mlir::Operation *)> costOf,
                            llvm::ArrayRef<mlir::func::FuncOp> functions = {});

/// Does the same with the costs of `cluster`, and with the work that its host
/// does once per step.
StepProgram makeStepProgram(mlir::ModuleOp module, const Cluster &cluster,
                            llvm::ArrayRef<mlir::func::FuncOp> functions = {});

/// Emits an error if a step has more operations, over all micro-batches, than
/// can be simulated. The time and the memory of a simulation grow with them.
mlir::LogicalResult checkSimulable(mlir::ModuleOp module);

/// Simulates two steps in a row and returns the times of the second, and the
/// time that functions of some steps add to each step on average. If `trace` is
/// not null, the work of that step is appended to it in order of its end.
/// Functions are numbered as in StepFamily::getStep. Seconds count from the
/// step's beginning, so work that other streams began earlier has negative
/// times.
StepTimes simulateStep(const StepProgram &program,
                       std::vector<TimedWork> *trace = nullptr);

} // namespace fcdp
