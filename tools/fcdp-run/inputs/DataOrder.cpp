// SPDX-License-Identifier: Apache-2.0
#include "inputs/DataOrder.h"

#include "inputs/Permutation.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace fcdp::run {

DataOrder::DataOrder(const DataOptions &options,
                     const std::vector<int64_t> &fileRows)
    : options(options), firstRows(fileRows.size()), rowsOfFiles(fileRows) {
  if (!options.weights.empty() && options.weights.size() != fileRows.size())
    throw std::runtime_error("--data: weights: expected " +
                             std::to_string(fileRows.size()) +
                             ", one for each file of an input, got " +
                             std::to_string(options.weights.size()));
  for (size_t file = 0; file < fileRows.size(); ++file)
    if (options.validationMillionths != 0)
      splitFile(file);
  rowsOfSeries = rowsOfFiles;
  if (!options.weights.empty())
    mixture.emplace(options.weights);
  else
    rowsOfSeries = {
        std::accumulate(rowsOfFiles.begin(), rowsOfFiles.end(), int64_t(0))};
}

void DataOrder::splitFile(size_t file) {
  constexpr int64_t million = 1000000;
  int64_t rows = rowsOfFiles[file];
  // The number of rows is rounded to the nearest.
  auto heldOut = int64_t(
      (__int128(rows) * options.validationMillionths + million / 2) / million);
  if (heldOut < 1 || heldOut == rows)
    throw std::runtime_error(
        "--data: validation: expected a fraction that holds out at least one "
        "row of each file and leaves one to train on, got " +
        std::to_string(heldOut) + " of the " + std::to_string(rows) +
        " rows of file " + std::to_string(file + 1));
  bool isTrain = options.split == Split::Train;
  firstRows[file] = isTrain ? 0 : rows - heldOut;
  rowsOfFiles[file] = isTrain ? rows - heldOut : heldOut;
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
  // Without weights, rows are counted over all files.
  while (row >= rowsOfFiles[file])
    row -= rowsOfFiles[file++];
  return {file, firstRows[file] + row};
}

} // namespace fcdp::run
