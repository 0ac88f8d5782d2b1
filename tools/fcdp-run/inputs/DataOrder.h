// SPDX-License-Identifier: Apache-2.0
//
// The order in which a job reads the rows of its inputs.
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

/// Gives each position in the data, which counts from 0 over all ranks and
/// micro-batches of a job, a row. A function of the options and the files'
/// numbers of rows alone: neither ranks nor micro-batches change it.
/// python/fcdp/data.py has the same one. Immutable, hence thread-safe.
///
/// Rows that have epochs in common are a series: all rows of all files or, with
/// weights, those of one file. Rows that the split does not have are in none.
class DataOrder {
public:
  /// `fileRows` has the number of rows of each file, at least 1. Throws
  /// std::runtime_error unless there are as many weights, if any, or if a file
  /// is too short to be split.
  DataOrder(const DataOptions &options, const std::vector<int64_t> &fileRows);

  RowPlace at(int64_t position) const;

  size_t numSeries() const { return rowsOfSeries.size(); }
  int64_t rowsOf(size_t series) const { return rowsOfSeries[series]; }
  /// How often all rows of a series have been read, and of which of its epochs,
  /// from 1, the last row was, when the rows of `position` positions have been
  /// read.
  int64_t epochsBefore(size_t series, int64_t position) const;
  int64_t epochAt(size_t series, int64_t position) const;

private:
  void splitFile(size_t file);
  int64_t countBefore(size_t series, int64_t position) const;

  DataOptions options;
  /// What the split has of each file.
  std::vector<int64_t> firstRows, rowsOfFiles;
  std::vector<int64_t> rowsOfSeries;
  /// None without weights.
  std::optional<Mixture> mixture;
};

} // namespace fcdp::run
