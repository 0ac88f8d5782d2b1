// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fcdp {

namespace {

[[noreturn]] void fail(const std::string &path, const char *doing) {
  throw std::runtime_error(path + ": cannot be " + doing + ": " +
                           std::strerror(errno));
}

/// Closes a file descriptor.
struct Descriptor {
  int number;
  ~Descriptor() { close(number); }
};

} // namespace

MappedFile::MappedFile(const std::string &path) {
  int number = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number < 0)
    fail(path, "opened");
  Descriptor file{number};
  struct stat status;
  if (fstat(file.number, &status) != 0)
    fail(path, "examined");
  if (!S_ISREG(status.st_mode))
    throw std::runtime_error(path + ": expected a file, got something else");
  if (status.st_size == 0)
    return;
  void *data =
      mmap(nullptr, status.st_size, PROT_READ, MAP_SHARED, file.number, 0);
  if (data == MAP_FAILED)
    fail(path, "mapped");
  content = {static_cast<const std::byte *>(data), size_t(status.st_size)};
}

MappedFile::~MappedFile() {
  if (!content.empty())
    munmap(const_cast<std::byte *>(content.data()), content.size());
}

} // namespace fcdp
