// SPDX-License-Identifier: Apache-2.0
//
// The option --data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fcdp::run {

/// The part of each file that is read.
enum class Split { Train, Validation };

/// Which rows of the inputs are read, and in what order.
struct DataOptions {
  /// Each epoch reads the rows in another random order; none: in the order of
  /// the files.
  std::optional<uint64_t> shuffleSeed;
  /// How many rows of each file are read in a period, which has as many rows as
  /// their sum. Empty: an epoch reads all rows of all files.
  std::vector<uint32_t> weights;
  /// The share of each file's rows, in millionths and at its end, that training
  /// does not read; below a million.
  uint32_t validationMillionths = 0;
  Split split = Split::Train;
};

/// Parses "KEY=VALUE,...", or nothing. Throws std::runtime_error.
DataOptions parseDataOptions(const std::string &text);

/// Returns the one text of equal options; `parseDataOptions` is the inverse.
std::string toText(const DataOptions &options);

} // namespace fcdp::run
