// SPDX-License-Identifier: Apache-2.0
//
// The inputs of a job's evaluations.
#pragma once

#include "inputs/Inputs.h"

#include <memory>
#include <optional>

namespace fcdp::run {

/// The options of evaluations.
struct EvaluationOptions {
  /// The number of steps between evaluations; none for one evaluation at the
  /// end.
  std::optional<int64_t> every;
  /// The number of batches on each rank; none for as many as the rows allow.
  std::optional<int64_t> batches;
  /// The inputs; empty for the rows that --data holds out.
  std::vector<InputOption> inputs;
  /// Whether the checkpoint with the least loss is kept, too.
  bool keepBest = false;
  /// Whether the run trains nothing.
  bool isAlone = false;
};

/// Throws std::runtime_error if an option names neither an input of the step
/// nor one of its evaluation.
void checkNamesOfAll(const StepPlan &plan,
                     const std::vector<InputOption> &options);

/// The inputs of evaluations, each of which reads the same rows. Immutable,
/// hence thread-safe.
class EvaluationInputs {
public:
  /// Returns null if the job evaluates nothing. `inputs` and `data` are those
  /// of the step. Throws std::runtime_error if the options do not fit the plan.
  static std::unique_ptr<EvaluationInputs>
  open(const StepPlan &plan, const EvaluationOptions &options,
       const std::vector<InputOption> &inputs, const DataOptions &data);

  void checkValues() const { inputs.checkValues(); }
  /// Returns the number of batches on each rank.
  int64_t numBatches() const { return batches; }
  /// Reads an input, counted from the first one of the evaluation.
  void read(size_t input, int64_t batch, uint32_t rank,
            std::span<std::byte> out) const {
    inputs.read(input, /*step=*/0, batch, rank, out);
  }

private:
  EvaluationInputs(const StepPlan &plan,
                   const std::vector<InputOption> &options,
                   const DataOptions &data, std::optional<int64_t> batches);

  const Inputs inputs;
  int64_t batches;
};

} // namespace fcdp::run
