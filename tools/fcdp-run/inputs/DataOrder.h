// SPDX-License-Identifier: Apache-2.0
//
// Defines the order in which a job reads the rows of its inputs.
#pragma once

#include "inputs/DataOptions.h"
#include "inputs/Mixture.h"

#include <cstdint>

namespace fcdp::run {

/// A row of one of the files that an input lists.
struct RowPlace {
  size_t file;
  int64_t row;
};

/// The order of rows. It maps each position, which counts from 0 over all ranks
/// and micro-batches of a job, to a row. It depends only on the options and the
/// numbers of rows of the files, not on ranks or micro-batches.
/// python/fcdp/data.py computes the same. Immutable, hence thread-safe.
///
/// Rows that have epochs in common are a series: all rows of all files or, with
/// weights, the rows of one file. Rows outside of the split are in no series.
class DataOrder {
public:
  /// `fileRows` has the number of rows of each file, at least 1. Throws
  /// std::runtime_error if there are weights but not one for each file, or if a
  /// file is too short to be split.
  DataOrder(const DataOptions &options, const std::vector<int64_t> &fileRows);

  RowPlace at(int64_t position) const;

  size_t numSeries() const { return rowsOfSeries.size(); }
  int64_t rowsOf(size_t series) const { return rowsOfSeries[series]; }
  /// Return how often all rows of a series have been read before `position`,
  /// and the epoch, counted from 1, of the last row before it.
  int64_t epochsBefore(size_t series, int64_t position) const;
  int64_t epochAt(size_t series, int64_t position) const;

private:
  void splitFile(size_t file);
  int64_t countBefore(size_t series, int64_t position) const;

  DataOptions options;
  /// The rows of each file that are in the split.
  std::vector<int64_t> firstRows, rowsOfFiles;
  std::vector<int64_t> rowsOfSeries;
  /// None without weights.
  std::optional<Mixture> mixture;
};

} // namespace fcdp::run
