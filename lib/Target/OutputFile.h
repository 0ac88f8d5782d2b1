// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Lets `write` fill a temporary file in the folder of `path`, given by its
/// name, then names it `path`. After an error nothing is left, and a file that
/// was there stays.
llvm::Error replaceFile(llvm::StringRef path,
                        llvm::function_ref<llvm::Error(llvm::StringRef)> write);

/// Lets `write` fill the file `path`.
llvm::Error
writeFile(llvm::StringRef path,
          llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);

} // namespace fcdp
