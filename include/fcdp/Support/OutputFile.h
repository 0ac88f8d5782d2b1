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

/// Lets `write` fill a temporary file in the folder of `path`, given by its
/// name, then names it `path`. After an error nothing is left, and a file that
/// was there stays. Refuses a `path` that is there and is no regular file.
llvm::Error replaceFile(llvm::StringRef path,
                        llvm::function_ref<llvm::Error(llvm::StringRef)> write);

/// The same for a tool that reports its errors itself: `write` returns whether
/// the file is complete. So does this function.
llvm::Expected<bool>
replaceFileIf(llvm::StringRef path,
              llvm::function_ref<bool(llvm::StringRef)> write);

/// Whether a tool writes to `path` as it is: the standard output ("-"), or
/// something that is there and is neither a file nor a folder, as a device.
bool isStream(llvm::StringRef path);

/// Lets `write` fill the file `path`, which need not appear at once.
llvm::Error
writeFile(llvm::StringRef path,
          llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);

/// Lets `print` print to `path`: as it is if it is a stream, and otherwise as
/// `replaceFile` does.
llvm::Error printToFile(llvm::StringRef path,
                        llvm::function_ref<void(llvm::raw_ostream &)> print);

/// A file of a command line, and what messages call it ("--trace").
struct NamedFile {
  llvm::StringRef option, path;
};

/// Refuses an output that is the same file as another output or an input. Empty
/// paths are none.
llvm::Error checkOutputs(llvm::ArrayRef<NamedFile> outputs,
                         llvm::ArrayRef<NamedFile> inputs);

} // namespace fcdp
