// SPDX-License-Identifier: Apache-2.0
//
// The hash that a manifest carries of itself: against damage and mix-ups, not
// against malice.
#pragma once

#include <string>
#include <string_view>

namespace fcdp {

/// SHA-1, in hex, of the manifest's text with the 40 digits of its first
/// key, "hash", replaced by zeros. Throws std::runtime_error if the text does
/// not begin with that key.
std::string planHash(std::string_view text);

/// Throws std::runtime_error if the text's own hash is another.
void checkPlanHash(std::string_view text);

} // namespace fcdp
