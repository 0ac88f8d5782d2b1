// SPDX-License-Identifier: Apache-2.0
//
// A JSON file whose form the caller knows. Errors have the line.
#pragma once

#include "fcdp/Support/Json.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <string>

namespace fcdp {

/// Functions that read return false once anything is wrong; the first error is
/// kept.
class JsonFile {
public:
  /// `text` must outlive this; its identifier is the file's name.
  explicit JsonFile(llvm::MemoryBufferRef text);

  /// Calls `read` with the file's value; a text that is no JSON has none.
  bool read(llvm::function_ref<bool(const Json &)> read);
  /// Calls `readMember` with each member, in their order.
  bool readObject(const Json &value,
                  llvm::function_ref<bool(const JsonMember &)> readMember);
  bool readArray(const Json &value,
                 llvm::function_ref<bool(const Json &)> readElement);
  /// Borrows from this.
  bool readString(const Json &value, llvm::StringRef &text);
  /// A finite number of at least 0.
  bool readPositive(const Json &value, double &number);
  /// A whole number from `least` to 2^53.
  bool readInteger(const Json &value, int64_t &number, int64_t least);

  /// Of the value's beginning.
  unsigned getLine(const Json &value);
  /// Keeps `message` as an error at the value's line.
  bool fail(const Json &value, const llvm::Twine &message);
  /// For a member whose name is not known.
  bool failUnknown(const JsonMember &member, llvm::StringRef known);

  /// `FILE:LINE: error: MESSAGE`, if there was one.
  llvm::Error takeError();

private:
  void keepError(unsigned line, const llvm::Twine &message);
  bool expected(const Json &value, llvm::StringRef what);

  llvm::StringRef file, text;
  llvm::BumpPtrAllocator arena;
  Json root;
  std::string error;
  /// What was counted last: values are mostly asked for in their order.
  size_t countedBytes = 0;
  unsigned countedLine = 1;
};

} // namespace fcdp
