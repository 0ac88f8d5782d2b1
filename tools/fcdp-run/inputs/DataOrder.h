// SPDX-License-Identifier: Apache-2.0
//
// The order in which a job reads the rows of its inputs.
#pragma once

#include "inputs/DataOptions.h"

#include <cstdint>

namespace fcdp::run {

/// Gives each position in the data, which counts from 0 over all ranks and
/// micro-batches of a job, a row. A function of the options and the number of
/// rows alone: neither ranks nor micro-batches change it. python/fcdp/data.py
/// has the same one. Immutable, hence thread-safe.
class DataOrder {
public:
  /// `rows` is at least 1.
  DataOrder(const DataOptions &options, int64_t rows);

  int64_t rowAt(int64_t position) const;
  /// How often all rows have been read when `position` rows have been read.
  int64_t epochsBefore(int64_t position) const;
  int64_t rows() const { return numRows; }

private:
  DataOptions options;
  int64_t numRows;
};

} // namespace fcdp::run
