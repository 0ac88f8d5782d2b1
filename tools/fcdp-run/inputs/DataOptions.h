// SPDX-License-Identifier: Apache-2.0
//
// The option --data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fcdp::run {

/// Which rows of the inputs are read, and in what order.
struct DataOptions {
  /// Each epoch reads the rows in another random order; none: in the order of
  /// the files.
  std::optional<uint64_t> shuffleSeed;
  /// How many rows of each file are read in a period, which has as many rows as
  /// their sum. Empty: an epoch reads all rows of all files.
  std::vector<uint32_t> weights;
};

/// Parses "KEY=VALUE,...", or nothing. Throws std::runtime_error.
DataOptions parseDataOptions(const std::string &text);

/// Returns the one text of equal options; `parseDataOptions` is the inverse.
std::string toText(const DataOptions &options);

} // namespace fcdp::run
