// SPDX-License-Identifier: Apache-2.0
#include "files/ReplacedFile.h"
#include "files/FileErrors.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sys/stat.h>

namespace fcdp {

namespace fs = std::filesystem;

const std::string &ownToken() {
  static const std::string token = [] {
    char text[9];
    std::snprintf(text, sizeof(text), "%08x", std::random_device()());
    return std::string(text);
  }();
  return token;
}

/// Returns the file that links lead to.
static fs::path followLinks(const std::string &path) {
  std::error_code error;
  fs::path real =
      fs::is_symlink(path, error) ? fs::canonical(path, error) : fs::path(path);
  return error ? fs::path(path) : real;
}

std::string temporaryName(const std::string &path) {
  // Names have at most 255 bytes.
  constexpr size_t most = 200;
  fs::path target = followLinks(path);
  std::string name = target.filename().string().substr(0, most);
  return target.replace_filename(name + "." + ownToken() + ".tmp").string();
}

bool isStream(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode);
}

bool removeIncomplete(const std::string &temporary) {
  FileDescriptor file(
      open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file)
    return false;
  std::array<char, ReplacedFile::kMarkBytes> mark{};
  bool isComplete =
      read(file.get(), mark.data(), mark.size()) > 0 &&
      std::any_of(mark.begin(), mark.end(), [](char c) { return c != 0; });
  if (!isComplete)
    (void)unlink(temporary.c_str());
  return isComplete;
}

ReplacedFile::ReplacedFile(const std::string &path)
    : path(path), temporary(isStream(path) ? "" : temporaryName(path)) {
  if (temporary.empty())
    file.emplace(DurableFile::openStream(path));
  else
    file.emplace(DurableFile::create(temporary, path));
}

ReplacedFile::~ReplacedFile() {
  if (file && !temporary.empty())
    (void)unlink(temporary.c_str());
}

void ReplacedFile::write(std::span<const std::byte> bytes) {
  if (temporary.empty())
    return file->write(bytes);
  if (written < kMarkBytes) {
    size_t marked = std::min(bytes.size(), kMarkBytes - written);
    std::copy_n(bytes.begin(), marked, mark.begin() + written);
    written += marked;
    file->write(std::vector<std::byte>(marked));
    bytes = bytes.subspan(marked);
  }
  file->write(bytes);
}

void ReplacedFile::finish() {
  if (temporary.empty())
    return file->finish();
  file->sync();
  file->writeAt(0, std::span(mark).first(written));
  file->finish();
  // The file is complete, and is not removed from here on.
  file.reset();
  try {
    renameDurably(temporary, followLinks(path).string());
  } catch (const std::exception &error) {
    throw UnnamedFileError(std::string(error.what()) +
                           "; the complete file is " + temporary);
  }
}

} // namespace fcdp
