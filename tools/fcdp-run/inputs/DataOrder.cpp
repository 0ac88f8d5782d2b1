// SPDX-License-Identifier: Apache-2.0
#include "inputs/DataOrder.h"

#include "inputs/Permutation.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace fcdp::run {

DataOrder::DataOrder(const DataOptions &options,
                     const std::vector<int64_t> &fileRows)
    : options(options), rowsOfFiles(fileRows), rowsOfSeries(fileRows) {
  if (options.weights.empty()) {
    rowsOfSeries = {
        std::accumulate(fileRows.begin(), fileRows.end(), int64_t(0))};
    return;
  }
  if (options.weights.size() != fileRows.size())
    throw std::runtime_error("--data: weights: expected " +
                             std::to_string(fileRows.size()) +
                             ", one for each file of an input, got " +
                             std::to_string(options.weights.size()));
  mixture.emplace(options.weights);
}

int64_t DataOrder::countBefore(size_t series, int64_t position) const {
  return mixture ? mixture->countBefore(series, position) : position;
}

int64_t DataOrder::epochsBefore(size_t series, int64_t position) const {
  return countBefore(series, position) / rowsOfSeries[series];
}

int64_t DataOrder::epochAt(size_t series, int64_t position) const {
  int64_t last = std::max<int64_t>(countBefore(series, position) - 1, 0);
  return last / rowsOfSeries[series] + 1;
}

RowPlace DataOrder::at(int64_t position) const {
  size_t series = mixture ? mixture->fileAt(position) : 0;
  int64_t count = countBefore(series, position), rows = rowsOfSeries[series];
  int64_t row = count % rows;
  if (options.shuffleSeed)
    row = Permutation(rows, *options.shuffleSeed, series,
                      uint64_t(count / rows))(row);
  size_t file = series;
  // Without weights the row counts over all files.
  while (row >= rowsOfFiles[file])
    row -= rowsOfFiles[file++];
  return {file, row};
}

} // namespace fcdp::run
