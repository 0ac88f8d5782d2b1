// SPDX-License-Identifier: Apache-2.0

#include "Linker.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace llvm;
using namespace fcdp;

/// Returns the folder of the running program, in which an installation may have
/// a linker.
static std::string getOwnDirectory() {
  static int anchor;
  std::string program = sys::fs::getMainExecutable(/*argv0=*/nullptr, &anchor);
  return sys::path::parent_path(program).str();
}

static Expected<std::string> findLinker() {
  std::string versioned = "ld.lld-" + std::to_string(LLVM_VERSION_MAJOR);
  for (StringRef name :
       {StringRef(versioned), StringRef("ld.lld"), StringRef("ld")}) {
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return *path;
    if (ErrorOr<std::string> path =
            sys::findProgramByName(name, {getOwnDirectory()}))
      return *path;
  }
  return createStringError("no linker found: expected 'ld.lld' or 'ld' in "
                           "PATH; install lld or binutils");
}

/// Returns the linker's output in `path` as one line.
static std::string readMessage(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> text = MemoryBuffer::getFile(path);
  if (!text)
    return "";
  std::string message = (*text)->getBuffer().trim().str();
  llvm::replace(message, '\n', ' ');
  return message;
}

static StringRef folderOf(StringRef file) {
  StringRef folder = sys::path::parent_path(file);
  return folder.empty() ? "." : folder;
}

/// Returns an error if the disk of `output` lacks space for a shared object of
/// `object`. lld writes to mapped memory, and a signal would end it on a full
/// disk.
static Error requireSpace(StringRef object, StringRef output) {
  uint64_t bytes = 0;
  if (std::error_code error = sys::fs::file_size(object, bytes))
    return createStringError(error, object + ": " + error.message());
  StringRef folder = folderOf(output);
  ErrorOr<sys::fs::space_info> space = sys::fs::disk_space(folder);
  if (space && space->available < bytes)
    return createStringError("no space left in '" + folder + "': expected " +
                             Twine(bytes) + " bytes, got " +
                             Twine(space->available));
  return Error::success();
}

Error fcdp::linkSharedObject(StringRef object, StringRef output) {
  Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  if (Error error = requireSpace(object, output))
    return error;
  SmallString<128> log;
  if (std::error_code error =
          sys::fs::createTemporaryFile("fcdp-link", "txt", log))
    return createStringError(error, "cannot create a temporary file: " +
                                        error.message());
  FileRemover removeLog(log);
  // A build id would be the only part besides the code that depends on the
  // linker's version.
  StringRef arguments[] = {*linker, "-shared",     "--build-id=none",
                           "-z",    "noexecstack", "-o",
                           output,  object};
  std::string message;
  int status =
      sys::ExecuteAndWait(*linker, arguments, /*Env=*/std::nullopt,
                          /*Redirects=*/{"", log.str(), log.str()},
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  if (status == 0)
    return Error::success();
  std::string written = readMessage(log);
  // Another program may have filled the disk in the meantime.
  if (StringRef(written).contains("Stack dump"))
    return createStringError("the linker '" + *linker +
                             "' crashed, as it does if no space is left in '" +
                             folderOf(output) + "'");
  return createStringError("the linker '" + *linker + "' failed: " +
                           (written.empty() ? message : written));
}
