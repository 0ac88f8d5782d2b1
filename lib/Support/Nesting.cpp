// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/Nesting.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;
using namespace fcdp;

/// Steps have less than 20. The message names the number.
static constexpr int kMostLevels = 256;
static constexpr StringRef kTooDeep =
    "expected at most 256 brackets or signs within each other, got more";
/// An alias that contains others is printed as long as they are.
static constexpr size_t kMostParts = 1 << 20;
static constexpr StringRef kTooMany =
    "expected an alias that stands for at most 1048576 others, got more";
/// MLIR reads the dimensions of a type, which are one word, many times.
static constexpr size_t kMostInWord = 1 << 16;
static constexpr StringRef kTooLong =
    "expected names and numbers of at most 65536 characters, got more";

namespace {
/// The size of the attribute or type that an alias names.
struct Alias {
  int levels = 0;
  size_t parts = 1;
};

/// Walks over the text as MLIR's lexer does, and ignores brackets in strings
/// and comments.
class NestingScanner {
public:
  explicit NestingScanner(StringRef text) : rest(text) {}

  std::optional<TextProblem> find();

private:
  void skipString();
  void skipComment() {
    rest = rest.drop_until([](char c) { return c == '\n'; });
  }
  void count(char c, char next);
  void readWord(char c);
  void readAlias(StringRef name);
  void beginAlias(StringRef name);
  void endAlias();

  StringRef rest;
  char before = 0;
  size_t line = 1;
  int levels = 0, signs = 0, deepest = 0;
  size_t longest = 0;
  StringMap<Alias> aliases;
  /// The alias that is being defined, or none, and the levels before it.
  StringRef name;
  int base = 0;
  Alias current;
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
  deepest = std::max(levels, signs);
  current.levels = std::max(current.levels, levels - base);
}

void NestingScanner::beginAlias(StringRef alias) {
  endAlias();
  name = alias;
  base = levels;
  current = {};
}

void NestingScanner::endAlias() {
  if (!name.empty())
    aliases[name] = current;
  name = "";
}

/// Reads the name of an alias, with the sign before it, at its definition or
/// use.
void NestingScanner::readAlias(StringRef alias) {
  const StringRef next = rest.ltrim();
  if (next.starts_with("=") && !next.starts_with("=="))
    return beginAlias(alias);
  const auto found = aliases.find(alias);
  if (found == aliases.end())
    return;
  deepest = levels + found->second.levels + 1;
  current.levels = std::max(current.levels, deepest - base);
  current.parts = std::min(current.parts + found->second.parts, kMostParts + 1);
}

void NestingScanner::readWord(char c) {
  const bool isPrefix = c == '#' || c == '!';
  const char *begin = rest.data() - 1;
  const StringRef more = rest.take_while([&](char c) {
    return isAlnum(c) || c == '_' || c == '$' ||
           (isPrefix && (c == '.' || c == '-'));
  });
  rest = rest.drop_front(more.size());
  longest = more.size() + 1;
  // A name with a point is an attribute or a type of a dialect.
  if (isPrefix && !more.contains('.'))
    readAlias(StringRef(begin, more.size() + 1));
}

std::optional<TextProblem> NestingScanner::find() {
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
    if (isAlnum(c) || c == '#' || c == '!')
      readWord(c);
    before = c;
    if (deepest > kMostLevels)
      return TextProblem{line, kTooDeep};
    if (!name.empty() && current.parts > kMostParts)
      return TextProblem{line, kTooMany};
    if (longest > kMostInWord)
      return TextProblem{line, kTooLong};
  }
  return std::nullopt;
}

std::optional<TextProblem> fcdp::findTooDeep(StringRef text) {
  return NestingScanner(text).find();
}
