// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>

namespace fcdp {

/// "0.3 s", "300 s": as messages spell a time-out.
inline std::string spellSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", seconds);
  return text;
}

} // namespace fcdp
