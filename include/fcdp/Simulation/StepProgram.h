// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/StepFamily.h"
#include "fcdp/Simulation/Simulator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace fcdp {

/// A scheduled or planned step as the simulator runs it.
struct StepProgram {
  struct Function {
    InstructionList instructions;
    /// The operation of each instruction.
    std::vector<mlir::Operation *> ops;
  };
  std::map<Role, Function> functions;
  /// Per optimizer step.
  int64_t microBatches = 1;

  llvm::SmallVector<const InstructionList *>
  getRun(llvm::ArrayRef<Role> roles) const;
};

/// Where one optimizer step's time goes, all in seconds.
struct StepTimes {
  double seconds = 0;
  std::array<double, kNumActivities> busy{};
  /// The part of it that is on the compute stream.
  std::array<double, kNumActivities> onCompute{};
  std::array<double, kNumActivities> exposed{};
};

/// What `op` does for the step.
Activity getActivity(mlir::Operation *op);

StepProgram makeStepProgram(mlir::ModuleOp module,
                            llvm::function_ref<Cost(mlir::Operation *)> costOf);

/// The times of a step that follows another. Where `trace` is given it gets the
/// work of that step, in order of its end; functions are counted in
/// the order of StepFamily::getStep, and seconds from the step's beginning:
/// what other streams have begun before that has negative ones.
StepTimes simulateStep(const StepProgram &program,
                       std::vector<TimedWork> *trace = nullptr);

} // namespace fcdp
