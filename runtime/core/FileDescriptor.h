// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>
#include <utility>

namespace fcdp {

/// Owns a file descriptor. Move-only; not thread-safe.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept
      : fd(std::exchange(other.fd, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~FileDescriptor() {
    if (fd >= 0)
      close(fd);
  }

  int get() const { return fd; }
  /// Gives up the descriptor, which the caller closes.
  int release() { return std::exchange(fd, -1); }
  explicit operator bool() const { return fd >= 0; }

private:
  int fd = -1;
};

} // namespace fcdp
