// SPDX-License-Identifier: Apache-2.0
//
// A read-only mapping of a file.
#pragma once

#include "core/FileDescriptor.h"

#include <cstddef>
#include <span>
#include <string>

namespace fcdp {

/// Owns the mapping. Neither copyable nor movable; immutable and therefore
/// thread-safe.
///
/// If the file shrinks while it is mapped, what it had is read as zeros, and
/// `requireWhole` throws. While there are such files, a handler of SIGBUS is
/// installed for that, which passes all signals of other memory on to the
/// handler before it.
class MappedFile {
public:
  /// Throws std::runtime_error that names the file.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  std::span<const std::byte> bytes() const { return content; }
  /// Throws std::runtime_error if the file has shrunk. To be called after its
  /// bytes were read, and before they are used.
  void requireWhole() const;
  /// Takes the pages that were read out of the process's memory.
  void dropPages() const;

private:
  const std::string path;
  FileDescriptor file;
  std::span<const std::byte> content;
  /// Where the handler of SIGBUS finds the mapping.
  struct GuardedRange *guarded = nullptr;
};

} // namespace fcdp
