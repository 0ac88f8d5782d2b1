// SPDX-License-Identifier: Apache-2.0
#include "output/OutputFiles.h"

#include "files/ReplacedFile.h"
#include "output/Failure.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace fcdp::run {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string &option, const std::string &path,
                       const std::string &message) {
  throw std::runtime_error(option + " " + path + ": " + message);
}

bool isDirectory(const fs::path &path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool isFolder(const std::string &path) {
  return path.ends_with('/') || isDirectory(path);
}

/// Returns the folder in which a file, or the files of a folder, are made.
fs::path folderOf(const std::string &path) {
  fs::path folder = fs::absolute(path);
  if (!folder.has_filename()) // after a slash
    folder = folder.parent_path();
  return isDirectory(folder) ? folder : folder.parent_path();
}

/// Returns the lock of an output, the same for all symbolic links to it.
std::string lockName(const std::string &given) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(given), error);
  const std::string path = error ? given : real.string();
  fs::path folder = folderOf(path);
  if (isDirectory(path))
    return (folder / ".fcdp.lock").string();
  // Names have at most 255 bytes.
  constexpr size_t most = 200;
  fs::path named = fs::absolute(path);
  if (!named.has_filename())
    named = named.parent_path();
  return (folder / ("." + named.filename().string().substr(0, most) + ".lock"))
      .string();
}

/// Creates the file under its temporary name, and removes it.
void tryToMake(const NamedFile &file) {
  fs::path folder = folderOf(file.path);
  if (access(folder.c_str(), W_OK) != 0)
    fail(file.option, file.path,
         "cannot write to " + folder.string() + ": " + std::strerror(errno));
  if (isFolder(file.path) && file.mayBeFolder)
    return;
  if (isFolder(file.path))
    fail(file.option, file.path, "expected the name of a file, got a folder");
  // The final name may be too long although the temporary one is not.
  struct stat status;
  if (lstat(file.path.c_str(), &status) != 0 && errno != ENOENT)
    fail(file.option, file.path,
         std::string("cannot be created: ") + std::strerror(errno));
  try {
    ReplacedFile made(file.path);
  } catch (const std::exception &error) {
    throw std::runtime_error(file.option + " " + error.what());
  }
}

} // namespace

OutputFiles::OutputFiles(std::vector<NamedFile> files)
    : files(std::move(files)) {
  (void)ownToken(); // is drawn here
}

void OutputFiles::cleanUp() {
  for (const std::string &sentence : close())
    printNote(sentence);
}

void OutputFiles::open() {
  for (const NamedFile &file : files) {
    if (isStream(file.path)) {
      if (access(file.path.c_str(), W_OK) != 0)
        fail(file.option, file.path,
             std::string("cannot be written: ") + std::strerror(errno));
      continue;
    }
    tryToMake(file);
    locks.push_back(std::make_unique<FileLock>(lockName(file.path),
                                               file.option + " " + file.path,
                                               kBusyOutput, kOutputPatience));
  }
}

std::vector<std::string> OutputFiles::close() {
  locks.clear();
  std::vector<std::string> complete;
  for (const NamedFile &file : files) {
    if (isStream(file.path))
      continue;
    FileLock::removeUnused(lockName(file.path));
    std::string temporary = temporaryName(file.path);
    if (removeIncomplete(temporary))
      complete.push_back(file.option + " " + file.path +
                         ": the complete file is " + temporary +
                         ", as the run ended before it was renamed");
  }
  return complete;
}

void checkSpace(const std::string &option, const std::string &path,
                uint64_t bytes) {
  struct statvfs disk;
  fs::path folder = folderOf(path);
  if (isStream(path) || statvfs(folder.c_str(), &disk) != 0)
    return;
  uint64_t left = uint64_t(disk.f_bavail) * disk.f_frsize;
  if (left < bytes)
    fail(option, path,
         "expected " + std::to_string(bytes) +
             " bytes to be left on the disk for it, got " +
             std::to_string(left) + "; free some, or name another folder");
}

void writeWhole(const std::string &option, const std::string &path,
                const std::string &text) {
  try {
    ReplacedFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.finish();
  } catch (const UnnamedFileError &error) {
    throw UnnamedFileError(option + " " + error.what());
  } catch (const std::exception &error) {
    throw std::runtime_error(option + " " + error.what());
  }
}

std::vector<std::string> foldersElsewhere() {
  std::error_code none, error;
  fs::path current = fs::current_path(none);
  fs::path temporary = fs::temp_directory_path(error);
  // All ranks return the same number of folders.
  return {none ? "." : current.string(), error ? "/tmp" : temporary.string()};
}

std::string keepElsewhere(const std::string &problem, const std::string &what,
                          const std::string &end, const std::string &text) {
  for (const std::string &folder : foldersElsewhere()) {
    std::string path = folder + "/fcdp-run." + ownToken() + end;
    try {
      writeWhole("", path, text);
      return problem + "; " + what + " is in " + path + " instead";
    } catch (const std::exception &) {
      continue; // the problem is the one to report
    }
  }
  throw std::runtime_error(problem);
}

} // namespace fcdp::run
