// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/RunLock.h"
#include "checkpoint/CheckpointFolders.h"
#include "checkpoint/FileErrors.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>

namespace fcdp {

RunLock::RunLock(const std::string &run, std::chrono::milliseconds patience)
    : run(run), path(run + "/.lock") {
  makeFolder(run);
  constexpr std::chrono::milliseconds poll(50);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!tryLock()) {
    if (std::chrono::steady_clock::now() >= end)
      throwAt(run, "another job saves its checkpoints in this folder; save to "
                   "another one, or end that job first");
    std::this_thread::sleep_for(poll);
  }
}

RunLock::~RunLock() {
  if (file)
    (void)unlink(path.c_str());
}

bool RunLock::tryLock() {
  constexpr mode_t mode = 0666;
  FileDescriptor opened(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode));
  if (!opened)
    throwErrno(path, "opened");
  if (flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return false;
  // The process that had the lock may have removed the file meanwhile.
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0 || status.st_nlink == 0)
    return false;
  file = std::move(opened);
  return true;
}

} // namespace fcdp
