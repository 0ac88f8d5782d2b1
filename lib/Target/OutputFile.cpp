// SPDX-License-Identifier: Apache-2.0

#include "OutputFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"

using namespace llvm;
using namespace fcdp;

static Error cannotWrite(StringRef path, const Twine &reason) {
  return createStringError("cannot write '" + path + "': " + reason);
}

/// Makes the empty file `path`, or says why it cannot be made.
static std::error_code createFile(StringRef path) {
  int descriptor;
  std::error_code error =
      sys::fs::openFileForWrite(path, descriptor, sys::fs::CD_CreateNew);
  if (error)
    return error;
  sys::fs::file_t file = sys::fs::convertFDToNativeFile(descriptor);
  return sys::fs::closeFile(file);
}

Error fcdp::replaceFile(StringRef path, function_ref<Error(StringRef)> write) {
  // Renaming would replace a device or a pipe by a file.
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && !sys::fs::is_regular_file(status))
    return cannotWrite(path, "it is there and is no regular file");
  std::string temporary =
      (path + "." + Twine(sys::Process::getProcessId()) + ".tmp").str();
  if (std::error_code error = createFile(temporary))
    return cannotWrite(path, error.message());
  sys::RemoveFileOnSignal(temporary);
  FileRemover remover(temporary);
  if (Error error = write(temporary))
    return error;
  if (std::error_code error = sys::fs::rename(temporary, path))
    return cannotWrite(path, error.message());
  remover.releaseFile();
  sys::DontRemoveFileOnSignal(temporary);
  return Error::success();
}

Error fcdp::writeFile(StringRef path,
                      function_ref<Error(raw_pwrite_stream &)> write) {
  std::error_code code;
  raw_fd_ostream stream(path, code);
  if (code)
    return cannotWrite(path, code.message());
  Error error = write(stream);
  stream.close();
  if (!error && stream.has_error())
    error = cannotWrite(path, stream.error().message());
  stream.clear_error();
  return error;
}
