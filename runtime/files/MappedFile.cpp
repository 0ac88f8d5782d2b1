// SPDX-License-Identifier: Apache-2.0
#include "files/MappedFile.h"
#include "files/FileErrors.h"
#include "files/GuardedRange.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace fcdp {

MappedFile::MappedFile(const std::string &path)
    // The call does not wait for a pipe.
    : path(path), file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (!file)
    throwErrno(path, "opened");
  struct stat status;
  if (fstat(file.get(), &status) != 0)
    throwErrno(path, "examined");
  if (!S_ISREG(status.st_mode))
    throwAt(path, "expected a file, got something else");
  if (status.st_size == 0)
    return;
  void *data =
      mmap(nullptr, status.st_size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED)
    throwErrno(path, "mapped");
  content = {static_cast<const std::byte *>(data), size_t(status.st_size)};
  guarded = guard(content.data(), content.size());
}

void MappedFile::requireWhole() const {
  struct stat status;
  if (fstat(file.get(), &status) != 0)
    throwErrno(path, "examined");
  // A file that has shrunk may have grown again.
  if (size_t(status.st_size) < content.size() || (guarded && guarded->isCut))
    throwAt(path, "expected " + std::to_string(content.size()) +
                      " bytes, as it had when it was opened, got " +
                      std::to_string(status.st_size) +
                      "; leave it as it is until the run has read it");
}

void MappedFile::dropPages() const {
  // A shared mapping of a file reads its pages again when they are needed. An
  // error affects only the memory in use.
  if (!content.empty())
    madvise(const_cast<std::byte *>(content.data()), content.size(),
            MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  unguard(guarded);
  if (!content.empty())
    munmap(const_cast<std::byte *>(content.data()), content.size());
}

} // namespace fcdp
