// SPDX-License-Identifier: Apache-2.0
//
// Reads all inputs of a step, and decides which rank reads which row at which
// step.
#pragma once

#include "inputs/DataOrder.h"
#include "inputs/InputSource.h"
#include "inputs/Shapes.h"

namespace fcdp::run {

/// An option `--input NAME=SPEC`.
struct InputOption {
  std::string name, spec;
};

/// The end of an epoch, at which all rows of a series have been read.
struct EpochEnd {
  int64_t epoch; ///< from 1
  int64_t rows;
  /// The file, as the first input lists it, if there are several series.
  std::string file;
};

/// Returns "epoch 1 ends: all 48 rows have been read", or "... rows of FILE
/// have ...".
std::string describeEnd(const EpochEnd &end);

/// Inputs of the plan that are read together.
struct InputGroup {
  StepPlan::Inputs inputs;
  /// The option that gives an input its file, and the owner of the inputs in
  /// messages.
  std::string option = "--input", owner = "the step's";
};

/// Throws std::runtime_error if an option names no input of `group`, or if two
/// name the same.
void checkNames(const InputGroup &group,
                const std::vector<InputOption> &options);

/// The inputs of a job. Immutable after `startAt`, hence thread-safe.
class Inputs {
public:
  /// Opens the inputs of the step, in the greatest of its shapes. With
  /// `shapes`, the shapes of the step, rows may be smaller. Throws
  /// std::runtime_error if inputs are missing, unknown or do not fit.
  Inputs(const StepPlan &plan, const std::vector<InputOption> &options,
         const DataOptions &data = {}, const Shapes *shapes = nullptr)
      : Inputs(plan, {plan.greatestInputs()}, options, data, shapes) {}
  /// Opens the inputs of `group` in the same way.
  Inputs(const StepPlan &plan, const InputGroup &group,
         const std::vector<InputOption> &options, const DataOptions &data,
         const Shapes *shapes = nullptr);

  /// Makes step `step` begin at position `row` of the data's order. By default,
  /// step 0 begins at 0.
  void startAt(int64_t step, int64_t row);
  /// Returns the position at which a step begins: the number of rows that the
  /// steps before it have read.
  int64_t firstRowOf(int64_t step) const;

  void checkValues() const;
  /// Reads the row at position firstRowOf(step) + microBatch ranks + rank of
  /// the data's order. Steps count from 0, and rank is the world rank.
  void read(size_t input, int64_t step, int64_t microBatch, uint32_t rank,
            std::span<std::byte> out) const;
  size_t size() const { return sources.size(); }
  /// Returns, for each series of rows, the epoch, counted from 1, of the last
  /// row before the end of a step; empty if the data has no end.
  std::vector<int64_t> epochsOf(int64_t step) const;
  /// Returns the epochs whose last row a step reads, the last epoch of each
  /// series.
  std::vector<EpochEnd> epochsThatEndIn(int64_t step) const;
  const std::vector<InputOption> &options() const { return inputOptions; }
  /// Returns the number of rows of each file; empty if all inputs are random.
  const std::vector<int64_t> &fileRows() const { return rowsOfFiles; }
  const DataOptions &dataOptions() const { return data; }
  /// Returns the order of rows, or none if all inputs are random, so that the
  /// data has no end.
  const std::optional<DataOrder> &order() const { return dataOrder; }

private:
  /// An input's files, or its one random source.
  using Sources = std::vector<std::unique_ptr<InputSource>>;

  Sources openAll(const std::string &spec, const plan::InputT &input,
                  const PadElement *pad) const;
  /// Returns the number of files of each input; none if all are random.
  std::optional<size_t> findFiles() const;
  /// Returns the number of rows in a file, which must be equal for all inputs.
  int64_t findRows(size_t file) const;
  /// Throws if sizes of rows of a file differ that are equal in all shapes of
  /// the step.
  void requireEqualSizes(size_t files) const;
  /// Returns a file's name as the first input with files lists it.
  std::string fileName(size_t file) const;

  int64_t startStep = 0, startRow = 0;
  const StepPlan &plan;
  const InputGroup group;
  const StepPlan::Inputs inputs;
  const std::vector<InputOption> inputOptions;
  const DataOptions data;
  std::vector<Sources> sources;
  std::vector<int64_t> rowsOfFiles;
  /// The row of a random source at which the rows of each file begin.
  std::vector<int64_t> randomRows;
  std::optional<DataOrder> dataOrder;
};

} // namespace fcdp::run
