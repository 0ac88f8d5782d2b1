// SPDX-License-Identifier: Apache-2.0
//
// Quantities as text for messages.
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// Returns `bytes` as a decimal number with a unit: `40.0 MB`, `512 B`.
std::string formatBytes(int64_t bytes);

/// Returns `seconds` with a unit: `1.20 s`, `350 us`.
std::string formatSeconds(double seconds);

} // namespace fcdp
