// SPDX-License-Identifier: Apache-2.0
#include "output/JsonLog.h"

#include "files/FileLock.h"
#include "output/OutputFiles.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fcdp::run {

namespace {

/// Returns the step of a line, or none if `write` has not completed the line.
std::optional<int64_t> stepOf(const std::string &line) {
  auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") ||
      !json["step"].is_number_integer())
    return std::nullopt;
  return json["step"].get<int64_t>();
}

/// Returns the number of bytes of the lines up to that of `lastStep`.
uint64_t bytesUpTo(const std::string &path, int64_t lastStep) {
  uint64_t bytes = 0;
  std::ifstream file(path, std::ios::binary);
  // The last line counts only if it is complete.
  for (std::string line;
       lastStep > 0 && std::getline(file, line) && !file.eof();) {
    std::optional<int64_t> step = stepOf(line);
    if (!step || *step > lastStep)
      break;
    bytes += line.size() + 1;
  }
  return bytes;
}

} // namespace

JsonLog::JsonLog(const std::string &path) : path(path) {
  if (path.empty())
    return;
  namespace fs = std::filesystem;
  if (fs::is_directory(path)) {
    errno = EISDIR;
    fail("created");
  }
  fs::path looked =
      fs::exists(path) ? fs::path(path) : fs::absolute(path).parent_path();
  if (access(looked.c_str(), W_OK) != 0)
    fail("created");
  if (fs::is_regular_file(path)) {
    locked = open(0);
    lock(locked);
  }
}

FileDescriptor JsonLog::open(int more) const {
  constexpr mode_t mode = 0666;
  // The call does not wait for a pipe without a reader.
  FileDescriptor opened(::open(
      path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | more, mode));
  if (!opened)
    fail("created");
  return opened;
}

void JsonLog::lock(const FileDescriptor &opened) const {
  FileLock::lockFile(opened, "--json " + path, kBusyOutput, kOutputPatience);
}

/// Returns whether both are one file.
static bool isSameOpen(const FileDescriptor &one, const FileDescriptor &other) {
  struct stat first, second;
  return one && other && fstat(one.get(), &first) == 0 &&
         fstat(other.get(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void JsonLog::fail(const std::string &doing) const {
  throw std::runtime_error("--json " + path + ": cannot be " + doing + ": " +
                           std::strerror(errno));
}

void JsonLog::begin(int64_t lastStep) {
  if (path.empty())
    return;
  FileDescriptor opened = open(O_CREAT);
  fcntl(opened.get(), F_SETFL, O_APPEND);
  bool isFile = std::filesystem::is_regular_file(path);
  if (isSameOpen(opened, locked)) {
    opened = std::move(locked);
    fcntl(opened.get(), F_SETFL, O_APPEND);
  } else if (isFile) {
    lock(opened);
  }
  if (isFile && ftruncate(opened.get(), off_t(bytesUpTo(path, lastStep))) != 0)
    fail("written");
  file = AppendedFile(std::move(opened), "--json " + path);
}

void JsonLog::write(const std::string &line) {
  if (file)
    file.append(line + '\n');
}

} // namespace fcdp::run
