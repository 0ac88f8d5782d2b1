// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>

namespace fcdp {

/// Returns a timeout as messages spell it: "0.3 s", "300 s".
inline std::string spellSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", seconds);
  return text;
}

} // namespace fcdp
