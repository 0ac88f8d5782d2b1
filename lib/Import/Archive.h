// SPDX-License-Identifier: Apache-2.0
//
// Reads entries of a .pt2 archive, which is a zip file.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <memory>
#include <string>
#include <vector>

struct zip;

namespace fcdp::pt2 {

/// Returns an error with the text `message`.
llvm::Error makeError(const llvm::Twine &message);

/// A .pt2 archive whose format and byte order have been checked. Names of
/// entries are relative to its root folder.
class Archive {
public:
  static llvm::Expected<Archive> openFile(llvm::StringRef path);
  /// `bytes` must outlive the archive.
  static llvm::Expected<Archive> openBuffer(llvm::MemoryBufferRef bytes);

  bool contains(llvm::StringRef name) const;
  /// Returns the whole content of an entry.
  llvm::Expected<std::string> read(llvm::StringRef name) const;
  /// Returns the names of all entries that start with `prefix`.
  std::vector<std::string> list(llvm::StringRef prefix) const;
  /// Returns the name of the single model, `models/NAME.json`. It is an error
  /// if there are none or several.
  llvm::Expected<std::string> findModel() const;

private:
  struct Close {
    void operator()(::zip *archive) const;
  };

  Archive(::zip *handle, uint64_t bytes) : handle(handle), bytes(bytes) {}
  static llvm::Expected<Archive> check(Archive archive);

  std::unique_ptr<::zip, Close> handle;
  /// Size of the archive file. No entry can be larger, because entries are not
  /// compressed.
  uint64_t bytes;
  /// The root folder. It ends in '/' or is empty.
  std::string root;
};

} // namespace fcdp::pt2
