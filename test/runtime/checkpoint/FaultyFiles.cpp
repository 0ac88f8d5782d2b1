// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/FaultyFiles.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace fcdp::test {

namespace {

namespace fs = std::filesystem;

/// The device and the number of a file or folder.
using Inode = std::pair<dev_t, ino_t>;

Inode inodeOf(int file) {
  struct stat status = {};
  (void)fstat(file, &status);
  return {status.st_dev, status.st_ino};
}

/// Calls the functions of libc as they are.
bool isInside = false;
struct Inside {
  Inside() { isInside = true; }
  ~Inside() { isInside = false; }
};

std::string contentOf(int file) {
  std::string content;
  char buffer[4096];
  ssize_t got;
  while ((got = pread(file, buffer, sizeof(buffer), off_t(content.size()))) > 0)
    content.append(buffer, size_t(got));
  return content;
}

void setContent(int file, const std::string &content) {
  if (ftruncate(file, 0) != 0 || pwrite(file, content.data(), content.size(),
                                        0) != ssize_t(content.size()))
    std::abort();
}

/// Returns the folder of a path, opened.
int openParent(const fs::path &path) {
  return open(fs::absolute(path).parent_path().c_str(),
              O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/// A file that was written to.
struct WrittenFile {
  int file;
  std::string synced;
  /// The last write since then.
  std::string last;
  off_t lastOffset = 0;
};

/// A change of a folder, and how it is taken back.
struct NameChange {
  Inode folder;
  std::function<void()> undo;
};

/// Changes of files and folders that are not synchronized.
class Unsynced {
public:
  void opened(int file, const std::string &before) {
    std::string path = "/proc/self/fd/" + std::to_string(file);
    files.try_emplace(
        inodeOf(file),
        WrittenFile{open(path.c_str(), O_RDWR | O_CLOEXEC), before, "", 0});
  }

  void written(int file, const void *data, ssize_t bytes) {
    auto found = files.find(inodeOf(file));
    if (found == files.end() || bytes <= 0)
      return;
    found->second.last.assign(static_cast<const char *>(data), size_t(bytes));
    found->second.lastOffset = lseek(file, 0, SEEK_CUR) - bytes;
  }

  void synced(int file) {
    Inode inode = inodeOf(file);
    if (auto found = files.find(inode); found != files.end()) {
      found->second.synced = contentOf(found->second.file);
      found->second.last.clear();
    }
    std::erase_if(names, [&](const NameChange &change) {
      return change.folder == inode;
    });
  }

  void created(const fs::path &path) {
    int folder = openParent(path);
    std::string name = path.filename().string();
    names.push_back({inodeOf(folder), [folder, name] {
                       std::error_code ignored;
                       fs::remove_all(fs::read_symlink("/proc/self/fd/" +
                                                       std::to_string(folder)) /
                                          name,
                                      ignored);
                     }});
  }

  /// Within a folder; `kept` is another name of a file that was in the way.
  void renamed(const fs::path &from, const fs::path &to, std::string kept) {
    int folder = openParent(to);
    std::string before = from.filename().string(),
                after = to.filename().string();
    names.push_back({inodeOf(folder), [=] {
                       renameat(folder, after.c_str(), folder, before.c_str());
                       if (!kept.empty())
                         renameat(AT_FDCWD, kept.c_str(), folder,
                                  after.c_str());
                     }});
  }

  void lose(Loss loss) {
    if (loss != Loss::Nothing && loss != Loss::Names)
      for (auto &[inode, file] : files)
        loseContent(file, loss);
    if (loss == Loss::Names || loss == Loss::All)
      for (; !names.empty(); names.pop_back())
        names.back().undo();
  }

private:
  static void loseContent(const WrittenFile &file, Loss loss) {
    std::string content = file.synced;
    if (loss == Loss::EarlierContents && !file.last.empty()) {
      content.resize(
          std::max(content.size(), size_t(file.lastOffset) + file.last.size()));
      content.replace(size_t(file.lastOffset), file.last.size(), file.last);
    }
    setContent(file.file, content);
  }

  std::map<Inode, WrittenFile> files;
  std::vector<NameChange> names;
};

/// As few bytes are written as a whole.
constexpr size_t kMostWhole = 8;

FilesFault fault;
int numOperations = 0;
Unsynced unsynced;

/// Counts an operation; returns whether it is to fail, with errno set.
bool fails() {
  if (++numOperations != fault.operation)
    return false;
  if (fault.kind != FilesFault::Error) {
    losePower();
    raise(SIGKILL);
  }
  errno = fault.error;
  return true;
}

template <typename Function>
Function next(Function, const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// Returns what a file has before it is opened.
std::string contentBefore(const char *path) {
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::string content = file >= 0 ? contentOf(file) : "";
  if (file >= 0)
    close(file);
  return content;
}

/// Gives a file that is about to be replaced a second name.
std::string keepOther(const char *path) {
  struct stat status = {};
  std::string kept = std::string(path) + ".replaced";
  bool isFile = lstat(path, &status) == 0 && S_ISREG(status.st_mode);
  return isFile && link(path, kept.c_str()) == 0 ? kept : "";
}

} // namespace

void beginFaults(const FilesFault &next) {
  fault = next;
  numOperations = 0;
  unsynced = {};
}

int numFileOperations() { return numOperations; }

void losePower() {
  Inside inside;
  unsynced.lose(fault.loss);
}

} // namespace fcdp::test

using namespace fcdp::test;

extern "C" {

ssize_t write(int file, const void *data, size_t bytes) {
  static auto real = next(&write, "write");
  if (isInside)
    return real(file, data, bytes);
  if (numOperations + 1 == fault.operation && fault.kind != FilesFault::Kill &&
      bytes > kMostWhole)
    (void)real(file, data, bytes / 2);
  if (fails())
    return -1;
  ssize_t done = real(file, data, bytes);
  unsynced.written(file, data, done);
  return done;
}

int fsync(int file) {
  static auto real = next(&fsync, "fsync");
  if (isInside)
    return real(file);
  if (fails())
    return -1;
  Inside inside;
  unsynced.synced(file);
  return real(file);
}

int rename(const char *from, const char *to) noexcept {
  static auto real = next(&rename, "rename");
  if (isInside)
    return real(from, to);
  if (fails())
    return -1;
  Inside inside;
  std::string kept = fault.loss == Loss::Nothing ? "" : keepOther(to);
  int result = real(from, to);
  if (result == 0)
    unsynced.renamed(from, to, kept);
  return result;
}

int mkdir(const char *path, mode_t mode) noexcept {
  static auto real = next(&mkdir, "mkdir");
  if (isInside)
    return real(path, mode);
  if (fails())
    return -1;
  Inside inside;
  int result = real(path, mode);
  if (result == 0)
    unsynced.created(path);
  return result;
}

int unlinkat(int folder, const char *path, int flags) noexcept {
  static auto real = next(&unlinkat, "unlinkat");
  return !isInside && fails() ? -1 : real(folder, path, flags);
}

int open(const char *path, int flags, ...) {
  static auto real = reinterpret_cast<int (*)(const char *, int, mode_t)>(
      dlsym(RTLD_NEXT, "open"));
  mode_t mode = 0;
  if (!(flags & O_CREAT))
    return real(path, flags, mode);
  va_list rest;
  va_start(rest, flags);
  mode = va_arg(rest, mode_t);
  va_end(rest);
  if (isInside)
    return real(path, flags, mode);
  if (fails())
    return -1;
  Inside inside;
  bool isNew = access(path, F_OK) != 0;
  std::string before = contentBefore(path);
  int file = real(path, flags, mode);
  if (file >= 0)
    unsynced.opened(file, before);
  if (file >= 0 && isNew)
    unsynced.created(path);
  return file;
}
}
