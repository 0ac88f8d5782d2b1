// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/Nesting.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

/// Steps have less than 20. The message names the number.
static constexpr int kMostLevels = 256;

namespace {
/// Walks over the text as MLIR's lexer does: brackets in strings and comments
/// are none.
class NestingScanner {
public:
  explicit NestingScanner(StringRef text) : rest(text) {}

  /// Returns the line with too many levels, or none.
  std::optional<size_t> find();

private:
  void skipString();
  void skipComment() {
    rest = rest.drop_until([](char c) { return c == '\n'; });
  }
  void count(char c, char next);

  StringRef rest;
  char before = 0;
  size_t line = 1;
  int levels = 0, signs = 0;
};
} // namespace

void NestingScanner::skipString() {
  while (!rest.empty() && rest.front() != '\n') {
    const char c = rest.front();
    rest = rest.drop_front(c == '\\' ? std::min<size_t>(2, rest.size()) : 1);
    if (c == '"')
      return;
  }
}

void NestingScanner::count(char c, char next) {
  if (c == '\n')
    ++line;
  // Unary signs are nested, too.
  if (c == '-' && next != '>')
    ++signs;
  else if (!isSpace(c))
    signs = 0;
  const bool isArrow = (c == '>' && before == '-') || next == '=';
  if (StringRef("([{").contains(c) || (c == '<' && !isArrow))
    ++levels;
  else if (levels > 0 &&
           (StringRef(")]}").contains(c) || (c == '>' && !isArrow)))
    --levels;
}

std::optional<size_t> NestingScanner::find() {
  while (!rest.empty()) {
    const char c = rest.front();
    rest = rest.drop_front();
    const char next = rest.empty() ? 0 : rest.front();
    if (c == '"')
      skipString();
    else if (c == '/' && next == '/')
      skipComment();
    else
      count(c, next);
    before = c;
    if (levels > kMostLevels || signs > kMostLevels)
      return line;
  }
  return std::nullopt;
}

std::optional<size_t> fcdp::findTooDeep(StringRef text) {
  return NestingScanner(text).find();
}
