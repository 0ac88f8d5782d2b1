// SPDX-License-Identifier: Apache-2.0
//
// All inputs of a step, and which row feeds which rank when.
#pragma once

#include "inputs/DataOrder.h"
#include "inputs/InputSource.h"
#include "inputs/Shapes.h"

namespace fcdp::run {

/// `--input NAME=SPEC`
struct InputOption {
  std::string name, spec;
};

/// All rows of a series have been read.
struct EpochEnd {
  int64_t epoch; ///< from 1
  int64_t rows;
  /// The file, as the first input lists it, if the series is one of several.
  std::string file;
};

/// "epoch 1 ends: all 48 rows have been read", or "... rows of FILE have ..."
std::string describeEnd(const EpochEnd &end);

/// Throws std::runtime_error if an option names neither an input of the step
/// nor one of its evaluation.
void checkNames(const StepPlan &plan, const std::vector<InputOption> &options);

/// Immutable once `startAt` was called, hence thread-safe.
class Inputs {
public:
  /// The inputs of the step, in the greatest of its shapes, or those of its
  /// evaluation. With `shapes`, those of the step, rows may be smaller. Throws
  /// std::runtime_error if inputs are missing, unknown or do not fit.
  Inputs(const StepPlan &plan, const std::vector<InputOption> &options,
         const DataOptions &data = {}, bool ofEvaluation = false,
         const Shapes *shapes = nullptr);

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
  /// For each series of rows the number of the epoch, from 1, that the last row
  /// up to the end of a step is of; empty if the data has no end.
  std::vector<int64_t> epochsOf(int64_t step) const;
  /// The epochs whose last row a step reads, the last one of each series.
  std::vector<EpochEnd> epochsThatEndIn(int64_t step) const;
  const std::vector<InputOption> &options() const { return inputOptions; }
  /// The number of rows of each file; empty if all inputs are random.
  const std::vector<int64_t> &fileRows() const { return rowsOfFiles; }
  const DataOptions &dataOptions() const { return data; }
  /// None if all inputs are random, and the data has no end.
  const std::optional<DataOrder> &order() const { return dataOrder; }

private:
  /// An input's files, or its one random source.
  using Sources = std::vector<std::unique_ptr<InputSource>>;

  static Sources openAll(const std::string &spec, const plan::InputT &input,
                         const PadElement *pad);
  /// The number of files of each input; none if all are random.
  std::optional<size_t> findFiles() const;
  /// The number of rows that all inputs have in a file.
  int64_t findRows(size_t file) const;
  /// Throws unless the sizes of rows of a file are equal where they are in all
  /// shapes of the step.
  void requireEqualSizes(size_t files) const;
  /// A file, as the first input that has files lists it.
  std::string fileName(size_t file) const;

  int64_t startStep = 0, startRow = 0;
  const StepPlan &plan;
  const std::vector<const plan::InputT *> inputs;
  const std::vector<InputOption> inputOptions;
  const DataOptions data;
  std::vector<Sources> sources;
  std::vector<int64_t> rowsOfFiles;
  /// Where the rows of each file begin in a random source.
  std::vector<int64_t> randomRows;
  std::optional<DataOrder> dataOrder;
};

} // namespace fcdp::run
