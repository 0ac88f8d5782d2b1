// SPDX-License-Identifier: Apache-2.0
#include "core/Printable.h"

#include <cstdint>
#include <cstdio>

namespace fcdp {

/// Returns the bytes of the control character that `text` begins with, or 0.
static size_t countControlBytes(std::string_view text) {
  auto byteAt = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byteAt(0) < 0x20 || byteAt(0) == 0x7f)
    return 1;
  // The characters U+0080 to U+009F as UTF-8.
  const bool isUpper = text.size() > 1 && byteAt(0) == 0xc2 &&
                       byteAt(1) >= 0x80 && byteAt(1) <= 0x9f;
  if (isUpper)
    return 2;
  // U+200E, U+200F, U+2028 to U+202E and U+2066 to U+2069 change the order of
  // text on a terminal, or begin a line.
  if (text.size() < 3 || byteAt(0) != 0xe2)
    return 0;
  const uint8_t last = byteAt(2);
  const bool isMark = byteAt(1) == 0x80 && (last == 0x8e || last == 0x8f);
  const bool isOrder = byteAt(1) == 0x80 && last >= 0xa8 && last <= 0xae;
  const bool isIsolate = byteAt(1) == 0x81 && last >= 0xa6 && last <= 0xa9;
  return isMark || isOrder || isIsolate ? 3 : 0;
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
