// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/MappedFile.h"
#include "checkpoint/FileErrors.h"
#include "core/FileDescriptor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace fcdp {

MappedFile::MappedFile(const std::string &path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
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
}

void MappedFile::dropPages() const {
  // A shared mapping of a file reads them again when they are needed. An error
  // changes nothing but the memory.
  if (!content.empty())
    madvise(const_cast<std::byte *>(content.data()), content.size(),
            MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!content.empty())
    munmap(const_cast<std::byte *>(content.data()), content.size());
}

} // namespace fcdp
