// SPDX-License-Identifier: Apache-2.0
//
// Reads a JSON file with a known schema. Errors name the line.
#pragma once

#include "fcdp/Support/Json.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <string>

namespace fcdp {

/// Reads values and checks their types. Reading functions return false after an
/// error. Only the first error is kept.
class JsonFile {
public:
  /// `text` must outlive this reader. Its identifier is the file name in
  /// errors.
  explicit JsonFile(llvm::MemoryBufferRef text);

  /// Calls `read` with the root value unless the text is not valid JSON.
  bool read(llvm::function_ref<bool(const Json &)> read);
  /// Calls `readMember` with each member, in order, until one call fails.
  bool readObject(const Json &value,
                  llvm::function_ref<bool(const JsonMember &)> readMember);
  bool readArray(const Json &value,
                 llvm::function_ref<bool(const Json &)> readElement);
  /// Reads a string. The text belongs to this reader.
  bool readString(const Json &value, llvm::StringRef &text);
  /// Reads a finite number that is 0 or more.
  bool readPositive(const Json &value, double &number);
  /// Reads a whole number from `least` to 2^53.
  bool readInteger(const Json &value, int64_t &number, int64_t least);

  /// Returns the line on which the value begins.
  unsigned getLine(const Json &value);
  /// Records `message` as an error at the value's line. Returns false.
  bool fail(const Json &value, const llvm::Twine &message);
  /// Records that the name of a member is not among the `known` ones. Returns
  /// false.
  bool failUnknown(const JsonMember &member, llvm::StringRef known);

  /// Returns `FILE:LINE: error: MESSAGE`, or success if there was no error.
  llvm::Error takeError();

private:
  void keepError(unsigned line, const llvm::Twine &message);
  bool expected(const Json &value, llvm::StringRef what);

  llvm::StringRef file, text;
  llvm::BumpPtrAllocator arena;
  Json root;
  std::string error;
  /// Position and line of the last query. Queries are mostly in ascending
  /// order, so lines are counted from there.
  size_t countedBytes = 0;
  unsigned countedLine = 1;
};

} // namespace fcdp
