// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/InputFile.h"

#include "llvm/Support/FileSystem.h"

using namespace llvm;
using namespace fcdp;

Error fcdp::checkNoPipe(StringRef path) {
  sys::fs::file_status status;
  if (sys::fs::status(path, status) ||
      status.type() != sys::fs::file_type::fifo_file ||
      path.starts_with("/dev/") || path.starts_with("/proc/"))
    return Error::success();
  return createStringError("expected a file, got a named pipe");
}

Expected<std::unique_ptr<MemoryBuffer>> fcdp::readInputFile(StringRef path) {
  if (Error error = checkNoPipe(path))
    return std::move(error);
  auto file = MemoryBuffer::getFile(path, /*IsText=*/true,
                                    /*RequiresNullTerminator=*/true,
                                    // Else a large file would be mapped.
                                    /*IsVolatile=*/true);
  if (!file)
    return createStringError(file.getError(), file.getError().message());
  return std::move(*file);
}
