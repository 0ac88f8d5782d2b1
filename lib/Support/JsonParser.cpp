// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/Json.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/JSON.h"

using namespace llvm;
using namespace fcdp;

char JsonError::ID;

void JsonError::log(raw_ostream &stream) const {
  stream << "line " << line << ", column " << column << ": " << message;
}

std::error_code JsonError::convertToErrorCode() const {
  return inconvertibleErrorCode();
}

/// Returns an error located at the end of `before`.
static Error makeError(StringRef before, StringRef message) {
  unsigned line = before.count('\n') + 1;
  unsigned column = before.size() - (before.rfind('\n') + 1) + 1;
  return make_error<JsonError>(line, column, message);
}

namespace {
/// Limit on nesting, because the parser recurses.
constexpr unsigned kMaxDepth = 200;

class Parser {
public:
  Parser(StringRef text, BumpPtrAllocator &arena)
      : begin(text.begin()), at(text.begin()), end(text.end()), arena(arena) {}

  Expected<Json> parse() {
    Json value;
    if (!parseValue(value, 0))
      return takeError();
    skipSpace();
    if (at != end) {
      fail("expected the end of the text");
      return takeError();
    }
    return value;
  }

private:
  bool fail(const char *what) {
    if (!message) {
      message = what;
      failedAt = at;
    }
    return false;
  }

  Error takeError() {
    return makeError({begin, size_t(failedAt - begin)}, message);
  }

  void skipSpace() {
    while (at != end &&
           (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
      ++at;
  }

  bool consume(char c) {
    skipSpace();
    if (at == end || *at != c)
      return false;
    ++at;
    return true;
  }

  bool parseWord(StringRef word) {
    if (!StringRef(at, end - at).starts_with(word))
      return fail("expected a value");
    at += word.size();
    return true;
  }

  bool parseValue(Json &value, unsigned depth) {
    if (depth > kMaxDepth)
      return fail("nested too deeply");
    skipSpace();
    if (at == end)
      return fail("the text ends early");
    size_t position = at - begin;
    bool isParsed = parseToken(value, depth);
    value.setPosition(position);
    return isParsed;
  }

  bool parseToken(Json &value, unsigned depth) {
    switch (*at) {
    case '{':
      return parseObject(value, depth);
    case '[':
      return parseArray(value, depth);
    case '"': {
      StringRef text;
      if (!parseString(text))
        return false;
      value = Json::string(text);
      return true;
    }
    case 't':
      value = Json::boolean(true);
      return parseWord("true");
    case 'f':
      value = Json::boolean(false);
      return parseWord("false");
    case 'n':
      value = Json();
      return parseWord("null");
    default:
      return parseNumber(value);
    }
  }

  template <typename T>
  ArrayRef<T> keep(ArrayRef<T> values) {
    return values.copy(arena);
  }

  bool parseArray(Json &value, unsigned depth) {
    ++at;
    SmallVector<Json, 8> values;
    if (!consume(']')) {
      do {
        if (!parseValue(values.emplace_back(), depth + 1))
          return false;
      } while (consume(','));
      if (!consume(']'))
        return fail("expected ',' or ']'");
    }
    value = Json::array(keep(ArrayRef(values)));
    return true;
  }

  bool parseObject(Json &value, unsigned depth) {
    ++at;
    SmallVector<JsonMember, 8> members;
    if (!consume('}')) {
      do {
        JsonMember &member = members.emplace_back();
        skipSpace();
        if (at == end || *at != '"')
          return fail("expected a string");
        if (!parseString(member.name))
          return false;
        if (!consume(':'))
          return fail("expected ':'");
        Json inner;
        if (!parseValue(inner, depth + 1))
          return false;
        members.back().value = inner;
      } while (consume(','));
      if (!consume('}'))
        return fail("expected ',' or '}'");
    }
    value = Json::object(keep(ArrayRef(members)));
    return true;
  }

  bool parseNumber(Json &value) {
    const char *start = at;
    bool isInteger = true;
    if (at != end && *at == '-')
      ++at;
    while (at != end && (isDigit(*at) || *at == '.' || *at == 'e' ||
                         *at == 'E' || *at == '+' || *at == '-')) {
      isInteger &= isDigit(*at);
      ++at;
    }
    StringRef text(start, at - start);
    at = start;
    int64_t whole;
    if (isInteger && !text.getAsInteger(10, whole)) {
      value = Json::integer(whole);
    } else {
      double real;
      if (text.empty() || text.size() > kMaxNumber ||
          text.getAsDouble(real, /*AllowInexact=*/true))
        return fail("expected a value");
      value = Json::number(real);
    }
    at = text.end();
    return true;
  }

  /// Parses a string. Without escapes the result refers to the text; otherwise
  /// it is copied into the arena.
  bool parseString(StringRef &result) {
    const char *start = ++at;
    while (at != end && *at != '"' && *at != '\\')
      ++at;
    if (at != end && *at == '"') {
      result = StringRef(start, at++ - start);
      return true;
    }
    SmallString<256> text(StringRef(start, at - start));
    while (at != end && *at != '"') {
      if (*at != '\\') {
        text.push_back(*at++);
        continue;
      }
      ++at;
      if (!parseEscape(text))
        return false;
    }
    if (at == end)
      return fail("the string does not end");
    ++at;
    result = text.str().copy(arena);
    return true;
  }

  bool parseEscape(SmallVectorImpl<char> &text) {
    if (at == end)
      return fail("the string does not end");
    switch (char c = *at++) {
    case '"':
    case '\\':
    case '/':
      text.push_back(c);
      return true;
    case 'b':
      text.push_back('\b');
      return true;
    case 'f':
      text.push_back('\f');
      return true;
    case 'n':
      text.push_back('\n');
      return true;
    case 'r':
      text.push_back('\r');
      return true;
    case 't':
      text.push_back('\t');
      return true;
    case 'u':
      return parseUnicode(text);
    default:
      return fail("unknown escape");
    }
  }

  bool parseHex(unsigned &unit) {
    if (end - at < 4 || StringRef(at, 4).getAsInteger(16, unit))
      return fail("expected four hexadecimal digits");
    at += 4;
    return true;
  }

  bool parseUnicode(SmallVectorImpl<char> &text) {
    unsigned unit;
    if (!parseHex(unit))
      return false;
    unsigned point = unit;
    if (unit >= 0xD800 && unit < 0xDC00 &&
        StringRef(at, end - at).starts_with("\\u")) {
      at += 2;
      unsigned low;
      if (!parseHex(low))
        return false;
      if (low < 0xDC00 || low > 0xDFFF)
        return fail("expected the second half of a surrogate pair");
      point = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    } else if (unit >= 0xD800 && unit < 0xE000) {
      return fail("half of a surrogate pair");
    }
    char bytes[4];
    char *next = bytes;
    ConvertCodePointToUTF8(point, next);
    text.append(bytes, next);
    return true;
  }

  /// Limit on the length of a number, because APFloat's time grows with it.
  static constexpr size_t kMaxNumber = 400;

  const char *begin, *at, *end;
  const char *failedAt = nullptr;
  const char *message = nullptr;
  BumpPtrAllocator &arena;
};
} // namespace

Expected<Json> fcdp::parseJson(StringRef text, BumpPtrAllocator &arena) {
  // Sizes and positions are stored in 30 bits.
  if (text.size() >= size_t(1) << 30)
    return makeError("", "the text is larger than 1 GiB");
  size_t invalid;
  if (!json::isUTF8(text, &invalid))
    return makeError(text.take_front(invalid), "expected UTF-8");
  return Parser(text, arena).parse();
}
