// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/JsonReader.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

#include <cmath>

using namespace fcdp;

/// Of a text that is quoted in a message.
static constexpr size_t kQuoted = 20;

/// The next character that is no space, which stays; 0 at the end.
char JsonReader::peek() {
  for (; at < text.size(); ++at) {
    char next = text[at];
    if (next == '\n')
      ++line;
    else if (next != ' ' && next != '\t' && next != '\r')
      return next;
  }
  return 0;
}

bool JsonReader::fail(const llvm::Twine &message) {
  if (error.empty())
    error = (file + ":" + llvm::Twine(line) + ": error: " + message).str();
  return false;
}

bool JsonReader::expected(llvm::StringRef what) {
  if (!peek())
    return fail("expected " + what + ", got the end of the file");
  llvm::StringRef rest = text.substr(at).take_until(
      [](char c) { return c == '\n' || !llvm::isPrint(c); });
  return fail("expected " + what + ", got '" + rest.take_front(kQuoted) + "'");
}

bool JsonReader::failUnknown(llvm::StringRef name, llvm::StringRef known) {
  return fail("expected one of " + known + ", got '" + name + "'");
}

bool JsonReader::expect(char token, llvm::StringRef what) {
  if (!error.empty())
    return false;
  if (peek() != token)
    return expected(what);
  ++at;
  return true;
}

bool JsonReader::atEnd() {
  if (!error.empty())
    return false;
  return !peek() && at == text.size() ? true : expected("nothing more");
}

llvm::Error JsonReader::takeError() {
  if (error.empty())
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(), error);
}

bool JsonReader::readObject(
    llvm::function_ref<bool(llvm::StringRef name)> readMember) {
  if (!expect('{', "an object"))
    return false;
  if (peek() == '}')
    return expect('}', "");
  std::string name;
  do {
    if (peek() != '"')
      return expected("the name of a member");
    if (!readString(name) || !expect(':', "':' after the name") ||
        !readMember(name) || !error.empty())
      return false;
  } while (peek() == ',' && expect(',', ""));
  return expect('}', "',' or '}'");
}

bool JsonReader::readArray(llvm::function_ref<bool()> readElement) {
  if (!expect('[', "a list"))
    return false;
  if (peek() == ']')
    return expect(']', "");
  do {
    if (!readElement() || !error.empty())
      return false;
  } while (peek() == ',' && expect(',', ""));
  return expect(']', "',' or ']'");
}

bool JsonReader::readUnicode(std::string &value) {
  llvm::UTF32 code = 0;
  llvm::StringRef digits = text.substr(at, 4);
  if (digits.size() != 4 || digits.getAsInteger(16, code))
    return expected("four hexadecimal digits");
  at += 4;
  // What is beyond the basic plane comes in two halves, of which neither is a
  // character; fcdp's tools write such characters as they are.
  char bytes[UNI_MAX_UTF8_BYTES_PER_CODE_POINT];
  char *end = bytes;
  if (!llvm::ConvertCodePointToUTF8(code, end))
    return expected("a character of the basic plane");
  value.append(bytes, end);
  return true;
}

bool JsonReader::readEscape(std::string &value) {
  static constexpr llvm::StringLiteral names = "\"\\/bfnrt",
                                       meant = "\"\\/\b\f\n\r\t";
  char next = at < text.size() ? text[at] : 0;
  if (next == 'u') {
    ++at;
    return readUnicode(value);
  }
  size_t index = next ? names.find(next) : llvm::StringRef::npos;
  if (index == llvm::StringRef::npos)
    return expected("an escape sequence");
  value += meant[index];
  ++at;
  return true;
}

bool JsonReader::readString(std::string &value) {
  value.clear();
  if (!expect('"', "a string"))
    return false;
  while (at < text.size() && text[at] != '"') {
    char next = text[at];
    if (static_cast<unsigned char>(next) < ' ')
      return fail("expected no control character in a string");
    ++at;
    if (next != '\\')
      value += next;
    else if (!readEscape(value))
      return false;
  }
  return expect('"', "'\"' at the string's end");
}

bool JsonReader::readNumber(double &value) {
  if (!error.empty())
    return false;
  peek();
  llvm::StringRef digits = text.substr(at).take_while([](char c) {
    return llvm::isAlnum(c) || c == '+' || c == '-' || c == '.';
  });
  if (digits.empty() || digits.getAsDouble(value) || !std::isfinite(value))
    return expected("a number");
  at += digits.size();
  return true;
}

bool JsonReader::skipScalar() {
  std::string ignored;
  if (peek() == '"')
    return readString(ignored);
  for (llvm::StringRef word : {"true", "false", "null"})
    if (text.substr(at).starts_with(word)) {
      at += word.size();
      return error.empty();
    }
  double number = 0;
  return readNumber(number);
}

bool JsonReader::readPositive(double &value) {
  size_t begin = (peek(), at);
  if (!readNumber(value))
    return false;
  if (value >= 0)
    return true;
  at = begin;
  return expected("0 or a positive number");
}

bool JsonReader::readInteger(int64_t &value, int64_t least) {
  double number = 0;
  size_t begin = (peek(), at);
  if (!readNumber(number))
    return false;
  if (number == std::floor(number) && number >= least && number <= 0x1p53) {
    value = static_cast<int64_t>(number);
    return true;
  }
  at = begin;
  return expected("a whole number of at least " + std::to_string(least));
}
