// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/OutputFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

#include <cerrno>
#include <fcntl.h>

using namespace llvm;
using namespace fcdp;

static Error cannotWrite(StringRef path, const Twine &reason) {
  return createStringError("cannot write '" + path + "': " + reason);
}

/// Returns the file that a path leads to, through links, or the path if there
/// is none.
static SmallString<128> followLinks(StringRef path) {
  SmallString<128> real;
  if (sys::fs::real_path(path, real))
    real = path;
  return real;
}

/// Creates an empty file in the folder of `path` and returns its name. No other
/// user can have placed a link there.
static ErrorOr<SmallString<128>> createBeside(StringRef path) {
  // Names have at most 255 bytes.
  constexpr size_t most = 200;
  SmallString<128> model(sys::path::parent_path(path));
  sys::path::append(model, sys::path::filename(path).take_front(most) +
                               ".%%%%%%%%.tmp");
  int descriptor;
  SmallString<128> created;
  if (std::error_code error =
          sys::fs::createUniqueFile(model, descriptor, created))
    return error;
  sys::fs::file_t file = sys::fs::convertFDToNativeFile(descriptor);
  if (std::error_code error = sys::fs::closeFile(file))
    return error;
  return created;
}

Error fcdp::replaceFile(StringRef path, function_ref<Error(StringRef)> write) {
  // Renaming would replace a device or a pipe by a file.
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && !sys::fs::is_regular_file(status))
    return cannotWrite(path, "it is there and is no regular file");
  SmallString<128> target = followLinks(path);
  ErrorOr<SmallString<128>> temporary = createBeside(target);
  if (!temporary)
    return cannotWrite(path, temporary.getError().message());
  sys::RemoveFileOnSignal(*temporary);
  FileRemover remover(*temporary);
  if (Error error = write(*temporary))
    return error;
  if (std::error_code error = sys::fs::rename(*temporary, target))
    return cannotWrite(path, error.message());
  remover.releaseFile();
  sys::DontRemoveFileOnSignal(*temporary);
  return Error::success();
}

Expected<bool> fcdp::replaceFileIf(StringRef path,
                                   function_ref<bool(StringRef)> write) {
  bool hasFailed = false;
  Error error = replaceFile(path, [&](StringRef temporary) -> Error {
    hasFailed = !write(temporary);
    return hasFailed ? createStringError("reported") : Error::success();
  });
  if (error && !hasFailed)
    return std::move(error);
  consumeError(std::move(error));
  return !hasFailed;
}

bool fcdp::isStream(StringRef path) {
  sys::fs::file_status status;
  return path == "-" ||
         (!sys::fs::status(path, status) && !sys::fs::is_regular_file(status) &&
          !sys::fs::is_directory(status));
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

/// Prints to the standard output, a device or a pipe.
static Error printToStream(StringRef path,
                           function_ref<void(raw_ostream &)> print) {
  if (path == "-") {
    print(outs());
    outs().flush();
    return Error::success();
  }
  // Opening a pipe without a reader would block.
  int descriptor =
      ::open(path.str().c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return cannotWrite(
        path, std::error_code(errno, std::generic_category()).message());
  fcntl(descriptor, F_SETFL, 0);
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  print(stream);
  stream.close();
  std::error_code error = stream.error();
  stream.clear_error();
  return error ? cannotWrite(path, error.message()) : Error::success();
}

Error fcdp::printToFile(StringRef path,
                        function_ref<void(raw_ostream &)> print) {
  if (isStream(path))
    return printToStream(path, print);
  return replaceFile(path, [&](StringRef temporary) {
    return writeFile(temporary, [&](raw_pwrite_stream &stream) {
      print(stream);
      return Error::success();
    });
  });
}

/// Returns whether both paths name one file, which may not exist yet.
static bool isSameFile(StringRef one, StringRef other) {
  if (isStream(one) || isStream(other))
    return false;
  if (sys::fs::equivalent(one, other))
    return true;
  auto place = [](StringRef path) {
    SmallString<128> absolute(path);
    (void)sys::fs::make_absolute(absolute);
    SmallString<128> folder = followLinks(sys::path::parent_path(absolute));
    sys::path::append(folder, sys::path::filename(absolute));
    return folder;
  };
  return place(one) == place(other);
}

Error fcdp::checkOutputs(ArrayRef<NamedFile> outputs,
                         ArrayRef<NamedFile> inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile &output = outputs[i];
    auto refuse = [&](const NamedFile &other) {
      return createStringError(output.option +
                               ": expected a file of its own, "
                               "got '" +
                               output.path + "', which " + other.option +
                               " names, too");
    };
    if (output.path.empty())
      continue;
    for (const NamedFile &other : outputs.take_front(i))
      if (!other.path.empty() && isSameFile(output.path, other.path))
        return refuse(other);
    for (const NamedFile &input : inputs)
      if (!input.path.empty() && isSameFile(output.path, input.path))
        return refuse(input);
  }
  return Error::success();
}
