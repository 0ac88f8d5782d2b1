// SPDX-License-Identifier: Apache-2.0
#include "inputs/DataOrder.h"

#include "inputs/Permutation.h"

namespace fcdp::run {

DataOrder::DataOrder(const DataOptions &options, int64_t rows)
    : options(options), numRows(rows) {}

int64_t DataOrder::epochsBefore(int64_t position) const {
  return position / numRows;
}

int64_t DataOrder::rowAt(int64_t position) const {
  int64_t index = position % numRows;
  if (!options.shuffleSeed)
    return index;
  return Permutation(numRows, *options.shuffleSeed, /*series=*/0,
                     uint64_t(epochsBefore(position)))(index);
}

} // namespace fcdp::run
