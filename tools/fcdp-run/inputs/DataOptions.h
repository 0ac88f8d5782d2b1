// SPDX-License-Identifier: Apache-2.0
//
// The option --data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp::run {

/// Which rows of the inputs are read, and in what order.
struct DataOptions {
  /// Each epoch reads the rows in another random order; none: in the order of
  /// the files.
  std::optional<uint64_t> shuffleSeed;
};

/// Parses "KEY=VALUE,...", or nothing. Throws std::runtime_error.
DataOptions parseDataOptions(const std::string &text);

/// Returns the one text of equal options; `parseDataOptions` is the inverse.
std::string toText(const DataOptions &options);

} // namespace fcdp::run
