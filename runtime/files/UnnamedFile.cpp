// SPDX-License-Identifier: Apache-2.0
#include "files/UnnamedFile.h"

#include "files/FileErrors.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <system_error>
#include <unistd.h>

namespace fcdp {

FileDescriptor openUnnamed(const std::string &folder, int flags) {
  constexpr mode_t mode = 0600;
  FileDescriptor file(
      open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, mode));
  if (file || (errno != EOPNOTSUPP && errno != EISDIR))
    return file;
  // Some file systems need a name for a moment.
  std::string path = folder + "/fcdp-states-XXXXXX";
  FileDescriptor named(mkostemp(path.data(), O_CLOEXEC | flags));
  if (named && unlink(path.c_str()) != 0)
    throwErrno(path, "removed");
  return named;
}

void refuseMemory(const FileDescriptor &file, const std::string &folder) {
  struct statfs status = {};
  if (fstatfs(file.get(), &status) != 0)
    throwErrno(folder, "examined");
  if (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC)
    throwAt(folder, "expected a folder on a disk, got one in memory (tmpfs): "
                    "states there would take the memory that they are to save");
}

void allocateSpace(const FileDescriptor &file, const std::string &folder,
                   uint64_t bytes, const std::string &purpose) {
  const int error = posix_fallocate(file.get(), 0, off_t(bytes));
  if (error == 0)
    return;
  std::string text = "cannot be given " + std::to_string(bytes) +
                     " bytes for " + purpose + ": " +
                     std::generic_category().message(error);
  struct statfs status = {};
  if (fstatfs(file.get(), &status) == 0)
    text += "; " + std::to_string(uint64_t(status.f_bavail) * status.f_bsize) +
            " bytes are free";
  throwAt(folder, text);
}

} // namespace fcdp
