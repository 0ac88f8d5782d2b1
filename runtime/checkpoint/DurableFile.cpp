// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/DurableFile.h"
#include "checkpoint/FileErrors.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace fcdp {

static constexpr mode_t kFileMode = 0666;

DurableFile::DurableFile(const std::string &path, const std::string &shownAs)
    : shownAs(shownAs),
      file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                kFileMode)) {
  if (!file)
    throwErrno(shownAs, "created");
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

void DurableFile::finish() {
  if (fsync(file.get()) != 0)
    throwErrno(shownAs, "written to the disk");
  file = FileDescriptor();
}

void syncFolder(const std::string &path) {
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems have no such operation for folders; their renames are
  // durable or not without it.
  if (!folder || (fsync(folder.get()) != 0 && errno != EINVAL))
    throwErrno(path, "written to the disk");
}

void renameDurably(const std::string &from, const std::string &to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    throwErrno(to, "renamed from " + from);
  syncFolder(std::filesystem::absolute(to).parent_path().string());
}

} // namespace fcdp
