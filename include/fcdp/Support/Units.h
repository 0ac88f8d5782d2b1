// SPDX-License-Identifier: Apache-2.0
//
// Formats and parses quantities in messages and options.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// Returns `bytes` as a decimal number with a unit: `40.0 MB`, `512 B`.
std::string formatBytes(int64_t bytes);

/// Returns `seconds` with a unit: `1.20 s`, `350 us`.
std::string formatSeconds(double seconds);

/// Parses a whole number, which may have an exponent: `-1`, `1e6`, `1.5e9`.
/// Returns none for other texts, and for numbers that an int64_t cannot
/// represent.
std::optional<int64_t> parseInteger(llvm::StringRef text);

} // namespace fcdp
