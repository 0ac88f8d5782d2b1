// SPDX-License-Identifier: Apache-2.0
#include "files/DurableFile.h"
#include "files/FileErrors.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace fcdp {

static constexpr mode_t kFileMode = 0666;

DurableFile::DurableFile(int file, const std::string &shownAs)
    : shownAs(shownAs), file(file) {
  if (!this->file)
    throwErrno(shownAs, "created");
}

DurableFile::DurableFile(const std::string &path, const std::string &shownAs)
    : DurableFile(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                       kFileMode),
                  shownAs) {}

DurableFile DurableFile::create(const std::string &path,
                                const std::string &shownAs) {
  return {open(path.c_str(),
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode),
          shownAs};
}

DurableFile DurableFile::openStream(const std::string &path) {
  // The call does not wait for a pipe without a reader.
  int file = open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  if (file >= 0)
    fcntl(file, F_SETFL, O_APPEND);
  return {file, path};
}

void DurableFile::write(std::span<const std::byte> bytes) {
  // Linux writes at most 2 GiB a call.
  constexpr size_t most = size_t(1) << 30;
  while (!bytes.empty()) {
    ssize_t done =
        ::write(file.get(), bytes.data(), std::min(bytes.size(), most));
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      throwErrno(shownAs, "written");
    bytes = bytes.subspan(done);
  }
}

void DurableFile::writeAt(size_t offset, std::span<const std::byte> bytes) {
  if (lseek(file.get(), off_t(offset), SEEK_SET) < 0)
    throwErrno(shownAs, "written");
  write(bytes);
}

void DurableFile::sync() {
  // Devices and pipes cannot be synchronized.
  if (fsync(file.get()) != 0 && errno != EINVAL)
    throwErrno(shownAs, "written to the disk");
}

void DurableFile::finish() {
  sync();
  file = FileDescriptor();
}

void syncFolder(const std::string &path) {
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems have no such operation for folders. Whether their renames
  // are durable does not depend on it.
  if (!folder || (fsync(folder.get()) != 0 && errno != EINVAL))
    throwErrno(path, "written to the disk");
}

void renameDurably(const std::string &from, const std::string &to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    throwErrno(to, "renamed from " + from);
  syncFolder(std::filesystem::absolute(to).parent_path().string());
}

} // namespace fcdp
