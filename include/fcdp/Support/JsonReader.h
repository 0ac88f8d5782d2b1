// SPDX-License-Identifier: Apache-2.0
//
// Reads a JSON text whose form the caller knows. Errors have the line, and no
// text can make the reader call itself: it goes as deep as the caller asks.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <cstdint>
#include <string>

namespace fcdp {

/// Functions return false once anything is wrong; the first error is kept.
class JsonReader {
public:
  /// `text` must outlive the reader; its identifier is the file's name.
  explicit JsonReader(llvm::MemoryBufferRef text)
      : file(text.getBufferIdentifier()), text(text.getBuffer()) {}

  /// Calls `readMember` at the value of each member, which it has to read.
  bool readObject(llvm::function_ref<bool(llvm::StringRef name)> readMember);
  /// Calls `readElement` at each element, which it has to read.
  bool readArray(llvm::function_ref<bool()> readElement);
  bool readString(std::string &value);
  /// A finite number.
  bool readNumber(double &value);
  /// A finite number of at least 0.
  bool readPositive(double &value);
  /// A whole number from `least` to 2^53.
  bool readInteger(int64_t &value, int64_t least);

  /// A string, number, boolean or null.
  bool skipScalar();

  /// Of what is read next.
  unsigned getLine() const { return line; }
  /// Keeps `message` as an error at the current line.
  bool fail(const llvm::Twine &message);
  /// For a member whose name is not known.
  bool failUnknown(llvm::StringRef name, llvm::StringRef known);
  /// Whether there is nothing left.
  bool atEnd();

  /// `FILE:LINE: error: MESSAGE`, if there was one.
  llvm::Error takeError();

private:
  bool expect(char token, llvm::StringRef what);
  bool expected(llvm::StringRef what);
  char peek();
  bool readEscape(std::string &value);
  bool readUnicode(std::string &value);

  llvm::StringRef file, text;
  size_t at = 0;
  unsigned line = 1;
  std::string error;
};

} // namespace fcdp
