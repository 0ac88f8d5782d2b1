// SPDX-License-Identifier: Apache-2.0
#include "files/FileLock.h"
#include "files/FileErrors.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>

namespace fcdp {

/// Calls `tryLock` until it returns true, or throws.
template <typename TryLock>
static void awaitLock(TryLock tryLock, const std::string &shownAs,
                      const std::string &busy,
                      std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds poll(50);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!tryLock()) {
    if (std::chrono::steady_clock::now() >= end)
      throwAt(shownAs, busy);
    std::this_thread::sleep_for(poll);
  }
}

/// Returns whether no other process has the lock.
static bool lockNow(const FileDescriptor &file) {
  return flock(file.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

FileLock::FileLock(const std::string &path, const std::string &shownAs,
                   const std::string &busy, std::chrono::milliseconds patience)
    : path(path), shownAs(shownAs) {
  awaitLock([&] { return tryLock(); }, shownAs, busy, patience);
}

void FileLock::lockFile(const FileDescriptor &file, const std::string &shownAs,
                        const std::string &busy,
                        std::chrono::milliseconds patience) {
  awaitLock([&] { return lockNow(file); }, shownAs, busy, patience);
}

FileLock::~FileLock() {
  if (file)
    (void)unlink(path.c_str());
}

bool FileLock::tryLock() {
  constexpr mode_t mode = 0666;
  // Nothing is written to the file, so a link that another user has placed
  // there does no harm. The call does not wait for a pipe.
  FileDescriptor opened(
      open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
           mode));
  if (!opened)
    throwErrno(shownAs, "locked by " + path);
  if (!lockNow(opened))
    return false;
  // The process that had the lock may have removed the file in the meantime.
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0 || status.st_nlink == 0)
    return false;
  file = std::move(opened);
  file.keepFromChildren();
  return true;
}

void FileLock::removeUnused(const std::string &path) {
  FileDescriptor opened(
      open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (opened && flock(opened.get(), LOCK_EX | LOCK_NB) == 0)
    (void)unlink(path.c_str());
}

} // namespace fcdp
