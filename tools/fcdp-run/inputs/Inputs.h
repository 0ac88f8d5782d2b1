// SPDX-License-Identifier: Apache-2.0
//
// All inputs of a step, and which row feeds which rank when.
#pragma once

#include "inputs/InputSource.h"

namespace fcdp::run {

/// `--input NAME=SPEC`
struct InputOption {
  std::string name, spec;
};

/// Immutable once `startAt` was called, hence thread-safe.
class Inputs {
public:
  /// Throws std::runtime_error if inputs are missing, unknown or do not fit.
  Inputs(const StepPlan &plan, const std::vector<InputOption> &options);

  /// Has step `step` begin at row `row`. Without it step 0 begins at row 0.
  void startAt(int64_t step, int64_t row);
  /// The row at which a step begins: those that the steps before it have read.
  int64_t firstRowOf(int64_t step) const;

  void checkValues() const;
  /// Row of a micro-batch: (firstRowOf(step) + microBatch ranks + rank) mod M,
  /// where steps count from 0, and rank is the world rank.
  void read(size_t input, int64_t step, int64_t microBatch, uint32_t rank,
            std::span<std::byte> out) const;
  size_t size() const { return sources.size(); }

private:
  void findRows();

  int64_t startStep = 0, startRow = 0;
  const StepPlan &plan;
  std::vector<std::unique_ptr<InputSource>> sources;
  /// M; none if all inputs are random.
  std::optional<int64_t> rows;
};

} // namespace fcdp::run
