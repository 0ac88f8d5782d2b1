// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace fcdp {

/// Refuses a named pipe, which would be waited for until somebody writes to it.
/// The shell's `<(...)` is one that is open already.
llvm::Error checkNoPipe(llvm::StringRef path);

/// Reads a file, so that what happens to it later has no effect. Errors have no
/// path.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInputFile(llvm::StringRef path);

} // namespace fcdp
