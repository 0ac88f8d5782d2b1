// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/InputFile.h"

#include "llvm/Support/FileSystem.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;
using namespace fcdp;

/// The greatest sizes in bytes. The text of the largest step has a few hundred
/// MB.
static constexpr uint64_t kMostText = uint64_t(1) << 30;
static constexpr uint64_t kMostOfStream = uint64_t(1) << 28;

static constexpr int kStdin = 0;

static Error lastError() {
  return createStringError(std::error_code(errno, std::generic_category()),
                           std::generic_category().message(errno));
}

static bool isOpenAlready(StringRef path) {
  return path.starts_with("/dev/") || path.starts_with("/proc/");
}

Error fcdp::checkNoPipe(StringRef path) {
  sys::fs::file_status status;
  if (sys::fs::status(path, status) ||
      status.type() != sys::fs::file_type::fifo_file || isOpenAlready(path))
    return Error::success();
  return createStringError("expected a file, got a named pipe");
}

static Error checkKind(mode_t mode, bool isTerminal) {
  if (S_ISSOCK(mode))
    return createStringError("expected a file, got a socket");
  if (S_ISBLK(mode) || (S_ISCHR(mode) && !isTerminal))
    return createStringError("expected a file, got a device");
  return Error::success();
}

static bool isTerminal(StringRef path) {
  int descriptor =
      open(path.str().c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  const bool found = isatty(descriptor);
  close(descriptor);
  return found;
}

Error fcdp::checkInput(StringRef path) {
  if (Error error = checkNoPipe(path))
    return error;
  struct stat status;
  if (path == "-") {
    if (fstat(kStdin, &status) != 0)
      return Error::success();
    return checkKind(status.st_mode, isatty(kStdin));
  }
  if (stat(path.str().c_str(), &status) != 0)
    return Error::success();
  return checkKind(status.st_mode, S_ISCHR(status.st_mode) && isTerminal(path));
}

static Expected<std::unique_ptr<MemoryBuffer>> readStream(int descriptor,
                                                          StringRef name) {
  std::string text;
  constexpr size_t kChunk = 1 << 20;
  while (true) {
    const size_t have = text.size();
    text.resize(have + kChunk);
    ssize_t got = read(descriptor, text.data() + have, kChunk);
    text.resize(have + std::max<ssize_t>(got, 0));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return lastError();
    if (got == 0)
      return MemoryBuffer::getMemBufferCopy(text, name);
    if (text.size() > kMostOfStream)
      return createStringError("expected a stream of at most " +
                               Twine(kMostOfStream) + " bytes, got more");
  }
}

/// Refuses a file that cannot be text because of its size. Archives and objects
/// may be as large as the memory.
static Error checkSize(StringRef path, uint64_t size) {
  if (size <= kMostText)
    return Error::success();
  constexpr size_t kMagic = 4;
  auto start = MemoryBuffer::getFileSlice(path, kMagic, 0);
  if (!start)
    return createStringError(start.getError(), start.getError().message());
  StringRef magic = (*start)->getBuffer();
  if (magic.starts_with("PK\3\4") || magic.starts_with("\x7f"
                                                       "ELF"))
    return Error::success();
  return createStringError("expected at most " + Twine(kMostText) +
                           " bytes of text, got " + Twine(size));
}

Expected<std::unique_ptr<MemoryBuffer>> fcdp::readInputFile(StringRef path) {
  if (Error error = checkInput(path))
    return std::move(error);
  sys::fs::file_status status;
  const bool isKnown = !sys::fs::status(path, status);
  if (isKnown && !is_regular_file(status) && !is_directory(status)) {
    int descriptor = open(path.str().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
      return lastError();
    auto read = readStream(descriptor, path);
    close(descriptor);
    return read;
  }
  if (Error error = checkSize(path, isKnown ? status.getSize() : 0))
    return std::move(error);
  auto file = MemoryBuffer::getFile(path, /*IsText=*/true,
                                    /*RequiresNullTerminator=*/true,
                                    // Otherwise a large file would be mapped.
                                    /*IsVolatile=*/true);
  if (!file)
    return createStringError(file.getError(), file.getError().message());
  return std::move(*file);
}

Expected<std::unique_ptr<MemoryBuffer>>
fcdp::readInputFileOrStdin(StringRef path) {
  if (path != "-")
    return readInputFile(path);
  if (Error error = checkInput(path))
    return std::move(error);
  return readStream(kStdin, "<stdin>");
}

/// Returns the descriptor that a path names, if any.
static int findDescriptor(StringRef path) {
  if (path == "-" || path == "/dev/stdin")
    return kStdin;
  int descriptor;
  if ((path.consume_front("/dev/fd/") ||
       path.consume_front("/proc/self/fd/")) &&
      !path.getAsInteger(10, descriptor))
    return descriptor;
  return -1;
}

Error fcdp::bufferStream(StringRef path) {
  const int descriptor = findDescriptor(path);
  struct stat status;
  if (descriptor < 0 || fstat(descriptor, &status) != 0 ||
      !S_ISFIFO(status.st_mode))
    return Error::success();
  auto text = readStream(descriptor, path);
  if (!text)
    return text.takeError();
  int memory = memfd_create("input", MFD_CLOEXEC);
  if (memory < 0)
    return lastError();
  raw_fd_ostream stream(memory, /*shouldClose=*/true);
  stream << (*text)->getBuffer();
  stream.flush();
  const std::error_code error = stream.error();
  stream.clear_error();
  if (error)
    return createStringError(error, error.message());
  if (lseek(memory, 0, SEEK_SET) < 0 || dup2(memory, descriptor) < 0)
    return lastError();
  return Error::success();
}
