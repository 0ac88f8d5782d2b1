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

/// The rows of the inputs that are read, and their order.
struct DataOptions {
  /// The seed by which each epoch reads the rows in another random order; none
  /// for the order of the files.
  std::optional<uint64_t> shuffleSeed;
  /// The number of rows of each file that are read in a period, which has as
  /// many rows as their sum. If it is empty, an epoch reads all rows of all
  /// files.
  std::vector<uint32_t> weights;
  /// The share of each file's rows, at its end, that training does not read, in
  /// millionths; below a million.
  uint32_t validationMillionths = 0;
  Split split = Split::Train;
};

/// Parses "KEY=VALUE,...", or an empty text. Throws std::runtime_error.
DataOptions parseDataOptions(const std::string &text);

/// Returns the same text for equal options; `parseDataOptions` is the inverse.
std::string toText(const DataOptions &options);

} // namespace fcdp::run
