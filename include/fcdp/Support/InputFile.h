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

/// Refuses what cannot be an input: a named pipe, a socket, or a device, which
/// may have no end. A terminal can be one.
llvm::Error checkInput(llvm::StringRef path);

/// Reads a file, so that what happens to it later has no effect. Refuses what
/// `checkInput` refuses, and text or a stream of more bytes than a step can
/// have. Errors have no path.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInputFile(llvm::StringRef path);

/// The same, where "-" is the standard input.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInputFileOrStdin(llvm::StringRef path);

/// Reads the stream that `path` names, "-" or a pipe that is open already, and
/// has its descriptor read the same bytes again from memory. Does nothing for
/// other files. For tools whose inputs others open. Errors have no path.
llvm::Error bufferStream(llvm::StringRef path);

} // namespace fcdp
