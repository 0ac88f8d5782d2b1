// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FileDescriptor.h"
#include "files/GuardedRange.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fcdp {

/// Memory whose pages are in a file without a name, to which the system writes
/// them when it needs the memory. The file does not outlive the process. Access
/// is not synchronized.
class DiskMemory {
public:
  /// Allocates the bytes on the disk, and sets them to 0. Throws
  /// std::runtime_error that names the folder if it has too little space, is
  /// not there, or is in memory.
  DiskMemory(const std::string &folder, uint64_t bytes);
  ~DiskMemory();
  DiskMemory(const DiskMemory &) = delete;
  DiskMemory &operator=(const DiskMemory &) = delete;

  std::span<std::byte> bytes() const { return memory; }
  /// Writes all pages to the disk, so that later reads find them there. Throws
  /// std::runtime_error if the disk has failed.
  void flush() const;
  /// Throws std::runtime_error if a page could not be read.
  void requireRead() const;

private:
  const std::string folder;
  FileDescriptor file;
  std::span<std::byte> memory;
  GuardedRange *guarded = nullptr;
};

} // namespace fcdp
