// SPDX-License-Identifier: Apache-2.0
//
// All inputs of a step, and which row feeds which rank when.
#pragma once

#include "inputs/DataOrder.h"
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
  Inputs(const StepPlan &plan, const std::vector<InputOption> &options,
         const DataOptions &data = {});

  /// Has step `step` begin at position `row` of the data's order. Without it
  /// step 0 begins at 0.
  void startAt(int64_t step, int64_t row);
  /// The position at which a step begins: the number of rows that the steps
  /// before it have read.
  int64_t firstRowOf(int64_t step) const;

  void checkValues() const;
  /// Reads the row at position firstRowOf(step) + microBatch ranks + rank of
  /// the data's order. Steps count from 0, and rank is the world rank.
  void read(size_t input, int64_t step, int64_t microBatch, uint32_t rank,
            std::span<std::byte> out) const;
  size_t size() const { return sources.size(); }
  /// The number of the epoch, from 1, that the last row of a step is of; none
  /// if the data has no end.
  std::optional<int64_t> epochOf(int64_t step) const;
  /// The number of the last epoch whose last row a step reads, if any.
  std::optional<int64_t> epochThatEndsIn(int64_t step) const;
  const std::vector<InputOption> &options() const { return inputOptions; }
  const DataOptions &dataOptions() const { return data; }
  /// None if all inputs are random, and the data has no end.
  const std::optional<DataOrder> &order() const { return dataOrder; }

private:
  /// M, the number of rows of all inputs; none if all are random.
  std::optional<int64_t> findRows() const;

  int64_t startStep = 0, startRow = 0;
  const StepPlan &plan;
  const std::vector<InputOption> inputOptions;
  const DataOptions data;
  std::vector<std::unique_ptr<InputSource>> sources;
  std::optional<DataOrder> dataOrder;
};

} // namespace fcdp::run
