// SPDX-License-Identifier: Apache-2.0
//
// Writes files that appear completely or not at all.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Calls `write` with the name of a temporary file in the folder of `path`,
/// then renames that file to `path`. After an error nothing is left, and an
/// existing file stays as it was. Refuses a `path` that exists and is no
/// regular file.
llvm::Error replaceFile(llvm::StringRef path,
                        llvm::function_ref<llvm::Error(llvm::StringRef)> write);

/// Does the same for a tool that reports its errors itself: `write` returns
/// whether the file is complete, and so does this function.
llvm::Expected<bool>
replaceFileIf(llvm::StringRef path,
              llvm::function_ref<bool(llvm::StringRef)> write);

/// Returns whether a tool writes to `path` directly: to the standard output
/// ("-"), or to something that exists and is neither a file nor a folder, such
/// as a device.
bool isStream(llvm::StringRef path);

/// Lets `write` fill the file `path`, which need not appear at once.
llvm::Error
writeFile(llvm::StringRef path,
          llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);

/// Lets `print` print to `path`: directly if it is a stream, and as
/// `replaceFile` does otherwise.
llvm::Error printToFile(llvm::StringRef path,
                        llvm::function_ref<void(llvm::raw_ostream &)> print);

/// A file of a command line, and its option in messages ("--trace").
struct NamedFile {
  llvm::StringRef option, path;
};

/// Refuses an output that is the same file as another output or an input. Empty
/// paths are ignored.
llvm::Error checkOutputs(llvm::ArrayRef<NamedFile> outputs,
                         llvm::ArrayRef<NamedFile> inputs);

} // namespace fcdp
