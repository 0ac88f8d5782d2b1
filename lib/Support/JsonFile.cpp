// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/JsonFile.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace fcdp;

/// Number of characters of the text that a message quotes.
static constexpr size_t kQuoted = 20;

JsonFile::JsonFile(llvm::MemoryBufferRef text)
    : file(text.getBufferIdentifier()), text(text.getBuffer()) {
  llvm::Expected<Json> parsed = parseJson(this->text, arena);
  if (parsed)
    root = *parsed;
  else
    llvm::handleAllErrors(parsed.takeError(), [&](const JsonError &error) {
      keepError(error.getLine(), error.getMessage());
    });
}

unsigned JsonFile::getLine(const Json &value) {
  size_t position = value.getPosition();
  if (position < countedBytes) {
    countedBytes = 0;
    countedLine = 1;
  }
  countedLine += text.slice(countedBytes, position).count('\n');
  countedBytes = position;
  return countedLine;
}

void JsonFile::keepError(unsigned line, const llvm::Twine &message) {
  if (error.empty())
    error = (file + ":" + llvm::Twine(line) + ": error: " + message).str();
}

bool JsonFile::fail(const Json &value, const llvm::Twine &message) {
  keepError(getLine(value), message);
  return false;
}

bool JsonFile::failUnknown(const JsonMember &member, llvm::StringRef known) {
  return fail(member.value,
              "expected one of " + known + ", got '" + member.name + "'");
}

bool JsonFile::expected(const Json &value, llvm::StringRef what) {
  llvm::StringRef rest =
      text.substr(value.getPosition()).take_until([](char c) {
        return c == '\n' || !llvm::isPrint(c);
      });
  return fail(value,
              "expected " + what + ", got '" + rest.take_front(kQuoted) + "'");
}

llvm::Error JsonFile::takeError() {
  if (error.empty())
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(), error);
}

bool JsonFile::read(llvm::function_ref<bool(const Json &)> read) {
  return error.empty() && read(root);
}

bool JsonFile::readObject(
    const Json &value,
    llvm::function_ref<bool(const JsonMember &)> readMember) {
  if (!value.isObject())
    return expected(value, "an object");
  return llvm::all_of(value.members(), readMember);
}

bool JsonFile::readArray(const Json &value,
                         llvm::function_ref<bool(const Json &)> readElement) {
  if (!value.isArray())
    return expected(value, "a list");
  return llvm::all_of(value.elements(), readElement);
}

bool JsonFile::readString(const Json &value, llvm::StringRef &text) {
  std::optional<llvm::StringRef> found = value.asString();
  if (!found)
    return expected(value, "a string");
  text = *found;
  return true;
}

bool JsonFile::readPositive(const Json &value, double &number) {
  std::optional<double> found = value.asNumber();
  if (!found || !std::isfinite(*found) || *found < 0)
    return expected(value, "0 or a positive number");
  number = *found;
  return true;
}

bool JsonFile::readInteger(const Json &value, int64_t &number, int64_t least) {
  double found = value.asNumber().value_or(NAN);
  // Negated, so that it refuses NAN too.
  if (!(found >= least && found <= 0x1p53 && found == std::floor(found)))
    return expected(value,
                    "a whole number of at least " + std::to_string(least));
  number = static_cast<int64_t>(found);
  return true;
}
