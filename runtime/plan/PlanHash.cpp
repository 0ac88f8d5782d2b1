// SPDX-License-Identifier: Apache-2.0
#include "plan/PlanHash.h"

#include <c10/util/hash.h>
#include <stdexcept>

namespace fcdp {

namespace {

constexpr size_t kDigits = 40;
constexpr std::string_view kSpace = " \t\r\n";

/// Advances `at` over white space and then `token`.
void skip(std::string_view text, size_t &at, std::string_view token) {
  at = text.find_first_not_of(kSpace, at);
  if (at == text.npos || text.substr(at, token.size()) != token)
    throw std::runtime_error("manifest: expected \"hash\" with 40 hex digits "
                             "as the first key");
  at += token.size();
}

/// Position of the first digit of the value of "hash".
size_t findDigits(std::string_view text) {
  size_t at = 0;
  for (std::string_view token : {"{", "\"hash\"", ":", "\""})
    skip(text, at, token);
  size_t end = text.find_first_not_of("0123456789abcdef", at);
  if (end != at + kDigits || text[end] != '"')
    throw std::runtime_error("manifest.hash: expected 40 lower-case hex "
                             "digits");
  return at;
}

} // namespace

std::string planHash(std::string_view text) {
  std::string blank(text);
  blank.replace(findDigits(text), kDigits, kDigits, '0');
  return c10::sha1(blank).str();
}

void checkPlanHash(std::string_view text) {
  std::string found = planHash(text);
  std::string_view stated = text.substr(findDigits(text), kDigits);
  if (found != stated)
    throw std::runtime_error("manifest.hash: expected " + found + ", got " +
                             std::string(stated) +
                             ": the object is damaged or was edited; compile "
                             "it again");
}

} // namespace fcdp
