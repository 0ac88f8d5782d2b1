// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace fcdp {

/// Refuses a named pipe, since opening it would block until another process
/// writes to it. The shell's `<(...)` is already open, and is accepted.
llvm::Error checkNoPipe(llvm::StringRef path);

/// Refuses a file that cannot be an input: a named pipe, a socket, or a device,
/// which may have no end. A terminal is accepted.
llvm::Error checkInput(llvm::StringRef path);

/// Reads a file into memory, so that later changes of the file have no effect.
/// Refuses the files that `checkInput` refuses, and text or a stream of more
/// bytes than a step can have. Errors do not contain the path.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInputFile(llvm::StringRef path);

/// Does the same, and reads the standard input for "-".
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInputFileOrStdin(llvm::StringRef path);

/// Reads the stream that `path` names, "-" or a pipe that is already open, into
/// memory, and redirects its descriptor to these bytes. Does nothing for other
/// files. For tools whose libraries open the inputs. Errors do not contain the
/// path.
llvm::Error bufferStream(llvm::StringRef path);

} // namespace fcdp
