// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ForkedChild.h"

#include <unistd.h>
#include <utility>

namespace fcdp {

/// Owns a file descriptor. Move-only; not thread-safe.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept
      : fd(std::exchange(other.fd, -1)),
        isPrivate(std::exchange(other.isPrivate, false)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(fd, other.fd);
    std::swap(isPrivate, other.isPrivate);
    return *this;
  }
  ~FileDescriptor() {
    if (fd >= 0 && (!isPrivate || forgetInChildren(fd)))
      close(fd);
  }

  int get() const { return fd; }
  /// Makes children that are forked from now on close it.
  void keepFromChildren() {
    closeInChildren(fd);
    isPrivate = true;
  }
  /// Releases the descriptor, which the caller must close.
  int release() {
    if (isPrivate)
      forgetInChildren(fd);
    isPrivate = false;
    return std::exchange(fd, -1);
  }
  explicit operator bool() const { return fd >= 0; }

private:
  int fd = -1;
  bool isPrivate = false;
};

} // namespace fcdp
