// SPDX-License-Identifier: Apache-2.0
#include "core/Utf8.h"

#include <cstdint>

namespace fcdp {

/// Returns the number of bytes of the character at the beginning of a text, or
/// 0 if there is none.
static size_t characterBytes(std::string_view text) {
  const auto first = uint8_t(text[0]);
  if (first < 0x80)
    return 1;
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes)
    return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((uint8_t(text[i]) & 0xC0) != 0x80)
      return 0;
  // These are characters that need fewer bytes, halves of a pair of UTF-16, and
  // those above the last one.
  const auto second = uint8_t(text[1]);
  const bool isNone =
      (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return isNone ? 0 : bytes;
}

std::string toUtf8(std::string_view text) {
  constexpr const char *digits = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const size_t bytes = characterBytes(text);
    if (bytes != 0) {
      result += text.substr(0, bytes);
    } else {
      const auto byte = uint8_t(text[0]);
      result += std::string("\\x") + digits[byte >> 4] + digits[byte & 15];
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

} // namespace fcdp
