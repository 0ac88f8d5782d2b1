// SPDX-License-Identifier: Apache-2.0
#include "core/Printable.h"

#include <cstdio>

namespace fcdp {

/// Returns the bytes of the control character that `text` begins with, or 0.
static size_t countControlBytes(std::string_view text) {
  auto byteAt = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byteAt(0) < 0x20 || byteAt(0) == 0x7f)
    return 1;
  // U+0080 to U+009F as UTF-8.
  const bool isUpper = text.size() > 1 && byteAt(0) == 0xc2 &&
                       byteAt(1) >= 0x80 && byteAt(1) <= 0x9f;
  return isUpper ? 2 : 0;
}

std::string printable(std::string_view line) {
  std::string printed;
  while (!line.empty()) {
    const size_t count = countControlBytes(line);
    for (char c : line.substr(0, count)) {
      char digits[5];
      std::snprintf(digits, sizeof(digits), "\\x%02x",
                    static_cast<unsigned char>(c));
      printed += c == '\n' ? "\\n" : digits;
    }
    if (count == 0)
      printed += line.front();
    line.remove_prefix(count == 0 ? 1 : count);
  }
  return printed;
}

} // namespace fcdp
